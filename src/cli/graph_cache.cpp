#include "cli/graph_cache.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "base/mapped_file.h"
#include "cli/cache_folder.h"
#include "models/saved_model.h"

namespace tempo9::cli {
namespace {

// Empty: none is used.
std::filesystem::path graph_path(const gguf::File& file, const std::string& graph) {
  if (graph == "off") return {};
  if (!graph.empty()) return graph;
  const std::filesystem::path folder = cache_folder("graph");
  if (folder.empty()) return {};
  return folder / (std::filesystem::path(file.path()).filename().string() + ".graph");
}

// In one step, so that another process sees the old file or the whole new one.
Result<void> replace_file(const std::filesystem::path& path, const std::vector<std::byte>& bytes) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  std::filesystem::path unfinished = path;
  unfinished += fmt::format(".{}.tmp", getpid());
  std::ofstream out(unfinished, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (out) std::filesystem::rename(unfinished, path, error);
  if (out && !error) return {};
  std::filesystem::remove(unfinished, error);
  return fail(ErrorCode::kIo, fmt::format("{}: can't be written", path.string()));
}

// The saved model at `path`; kNotFound when there is none.
Result<models::Model> restore(std::shared_ptr<const gguf::File> file, const std::filesystem::path& path,
                              bool is_users_path) {
  T9_TRY(saved, MappedFile::open(path));
  if (is_users_path && !models::is_saved_model(saved.bytes())) {
    return fail(ErrorCode::kUnsupported, fmt::format("--graph {}: this file is no graph", path.string()));
  }
  return models::restore_model(std::move(file), saved.bytes());
}

}  // namespace

Result<models::Model> load_model(std::shared_ptr<const gguf::File> file, const std::string& graph) {
  const std::filesystem::path path = graph_path(*file, graph);
  if (path.empty()) return models::load_model(std::move(file));
  auto saved = restore(file, path, !graph.empty());
  if (saved) {
    spdlog::debug("event=graph_loaded path=\"{}\"", path.string());
    return saved;
  }
  if (saved.error().code() == ErrorCode::kUnsupported) return fail(ErrorCode::kInvalidInput, saved.error().message());
  T9_TRY(model, models::load_model(std::move(file)));
  if (saved.error().code() != ErrorCode::kNotFound) {
    spdlog::info("event=graph_rebuilt path=\"{}\" why=\"{}\"", path.string(), saved.error().message());
  }
  if (const auto written = replace_file(path, models::save_model(model)); !written) {
    spdlog::warn("event=graph_not_saved what=\"{}\"", written.error().message());
  }
  return model;
}

}  // namespace tempo9::cli
