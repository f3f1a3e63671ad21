// Reading reference renderings.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>

#include "chat/template/template.h"

namespace tempo9::chat::testing {

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline Json read_json(const std::string& path) { return Json::parse(read_text(path)); }

// 2026-11-30T12:34:56 local time, the clock of all references.
inline std::chrono::system_clock::time_point reference_now() {
  std::tm local{};
  local.tm_year = 2026 - 1900;
  local.tm_mon = 10;
  local.tm_mday = 30;
  local.tm_hour = 12;
  local.tm_min = 34;
  local.tm_sec = 56;
  local.tm_isdst = -1;
  return std::chrono::system_clock::from_time_t(std::mktime(&local));
}

inline RenderOptions reference_options() {
  RenderOptions options;
  options.now = reference_now();
  return options;
}

// Parses and renders; an error of either is the result.
inline Result<Rendered> render(std::string_view source, const Json& variables = Json::object(),
                               const RenderOptions& options = reference_options()) {
  T9_TRY(parsed, Template::parse(source, options.limits));
  return parsed.render(variables, options);
}

inline std::string render_text(std::string_view source, const Json& variables = Json::object()) {
  auto rendered = render(source, variables);
  return rendered ? rendered->text : "ERROR " + rendered.error().message();
}

// `reference` holds "text", or "raised" with the message of raise_exception, or "error" for any other failure.
inline void expect_like_reference(const Result<Rendered>& rendered, const Json& reference, const std::string& name) {
  if (reference.contains("text")) {
    ASSERT_TRUE(rendered) << name << ": " << rendered.error().message();
    EXPECT_EQ(rendered->text, reference["text"].get<std::string>()) << name;
    return;
  }
  ASSERT_FALSE(rendered) << name << ": rendered " << rendered->text;
  if (!reference.contains("raised")) return;
  EXPECT_EQ(rendered.error().message(), reference["raised"].get<std::string>()) << name;
  EXPECT_EQ(rendered.error().reason(), "template_error") << name;
  EXPECT_EQ(rendered.error().code(), ErrorCode::kInvalidInput) << name;
}

}  // namespace tempo9::chat::testing
