// Where tests find what is too large for the repository. A test that can't have its data says so and skips, except
// under CI (the environment has CI or TEMPO9_REQUIRE_DATA set), where that is a failure.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace tempo9::testing {

// A file or folder of the checkout.
std::string source_path(const std::string& name);
inline std::string golden_path(const std::string& name) { return source_path("tests/goldens/" + name); }

// A file or folder of the reference data: under $TEMPO9_TESTDATA, else ../shared beside the checkout.
inline std::string reference_path(const std::string& name) {
  const char* folder = std::getenv("TEMPO9_TESTDATA");
  return (folder ? folder : source_path("../shared")) + "/" + name;
}

// A real model in the user's cache, where scripts/fetch-model puts it.
inline std::string model_path(const std::string& file) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  return (cache ? std::string(cache) : std::string(home ? home : "") + "/.cache") + "/tempo9/models/" + file;
}
inline constexpr const char* kSmolLm2 = "SmolLM2-135M-Instruct.Q4_1.gguf";
inline constexpr const char* kGemma3 = "gemma-3-270m-q4_k_m.gguf";

inline bool data_is_required() { return std::getenv("CI") || std::getenv("TEMPO9_REQUIRE_DATA"); }

}  // namespace tempo9::testing

// First line of a test that needs `path`.
#define T9_NEED_DATA(path)                                                                 \
  if (!std::filesystem::exists(path)) {                                                    \
    if (tempo9::testing::data_is_required()) FAIL() << (path) << " is needed and missing"; \
    GTEST_SKIP() << (path) << " is missing";                                               \
  }
