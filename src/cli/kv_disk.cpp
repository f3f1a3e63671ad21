#include "cli/kv_disk.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/byte_stream.h"
#include "cli/cache_folder.h"
#include "models/saved_model.h"

namespace tempo9::cli {
namespace {

constexpr double kBytesPerGb = 1e9;
constexpr double kMaxGb = 1e6;

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

std::string default_root() {
#ifdef __APPLE__
  const std::string_view home = variable("HOME");
  return home.starts_with('/') ? std::string(home) + "/Library/Caches/tempo9/kv" : "";
#else
  return cache_folder("kv").string();
#endif
}

}  // namespace

Result<kv::disk::Options> read_kv_disk_options() {
  kv::disk::Options options;
  if (const std::string_view gb = variable("AS_KV_OFFLOAD_GB"); !gb.empty()) {
    double value = 0.0;
    const auto [end, error] = std::from_chars(gb.data(), gb.data() + gb.size(), value);
    if (error != std::errc() || end != gb.data() + gb.size() || !(value > 0.0 && value <= kMaxGb)) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("AS_KV_OFFLOAD_GB is '{}'; it must be a number of GB above 0 (AS_KV_OFFLOAD=0 turns the "
                              "disk cache off)",
                              gb));
    }
    options.cap_bytes = static_cast<uint64_t>(value * kBytesPerGb);
  }
  const std::string_view on = variable("AS_KV_OFFLOAD");
  if (!on.empty() && on != "0" && on != "1") {
    return fail(ErrorCode::kInvalidInput, fmt::format("AS_KV_OFFLOAD is '{}'; it must be 0 or 1", on));
  }
  if (on == "0") return options;
  const std::string_view path = variable("AS_KV_OFFLOAD_PATH");
  options.root = path.empty() ? default_root() : std::filesystem::absolute(path).string();
  return options;
}

// All of a model would take seconds to read; its table of tensors and a little of each tell models apart.
std::string kv_identity(const models::Model& model) {
  constexpr size_t kSample = 512;
  ByteWriter out;
  out.number(model.file->size_bytes());
  out.number(model.file->modified_ns());
  for (const tensor::WeightView& weight : model.weights) {
    const size_t n = std::min<size_t>(kSample, weight.size_bytes());
    out.text({reinterpret_cast<const char*>(weight.data), n});
    out.text({reinterpret_cast<const char*>(weight.data) + weight.size_bytes() - n, n});
  }
  const auto digest = [](const std::vector<std::byte>& bytes) { return XXH3_64bits(bytes.data(), bytes.size()); };
  return fmt::format("file {:016x} program {:016x}", digest(out.data()), digest(models::save_model(model)));
}

}  // namespace tempo9::cli
