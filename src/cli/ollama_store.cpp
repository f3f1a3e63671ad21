#include "cli/ollama_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "base/utf8.h"

namespace tempo9::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kLibrary = "registry.ollama.ai/library/";
constexpr std::string_view kModelLayer = "application/vnd.ollama.image.model";
constexpr std::string_view kProjectorLayer = "application/vnd.ollama.image.projector";
// Real manifests have about 1 KiB. What is larger is none.
constexpr uintmax_t kMaxManifestBytes = 1 << 20;

// What is in a folder, by name; nothing when it can't be read.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    paths.push_back(entry->path());
  }
  std::ranges::sort(paths);
  return paths;
}

// Manifests lie four levels down: host, namespace, model, tag.
std::vector<fs::path> manifest_paths(const fs::path& manifests) {
  std::vector<fs::path> level = {manifests};
  for (int depth = 0; depth < 4; ++depth) {
    std::vector<fs::path> next;
    for (const fs::path& folder : level) std::ranges::copy(entries(folder), std::back_inserter(next));
    level = std::move(next);
  }
  std::erase_if(level, [](const fs::path& path) {
    std::error_code error;
    return !fs::is_regular_file(path, error) || path.filename().native().starts_with('.');
  });
  return level;
}

std::string model_name(const fs::path& manifests, const fs::path& manifest) {
  const fs::path relative = manifest.lexically_relative(manifests);
  std::string name = relative.parent_path().generic_string() + ":" + relative.filename().string();
  if (name.starts_with(kLibrary)) name.erase(0, kLibrary.size());
  return sanitize_utf8(name);
}

std::optional<Json> read_manifest(const fs::path& path) {
  std::error_code error;
  if (const uintmax_t size = fs::file_size(path, error); error || size > kMaxManifestBytes) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  Json manifest = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object() || !manifest.contains("layers") || !manifest["layers"].is_array()) return std::nullopt;
  return manifest;
}

const Json* find_layer(const Json& manifest, std::string_view media_type) {
  for (const Json& layer : manifest["layers"]) {
    if (layer.is_object() && layer.contains("mediaType") && layer["mediaType"] == media_type) return &layer;
  }
  return nullptr;
}

// The file name of a digest, "sha256-" and 64 hexadecimal digits; nothing else may become part of a path.
std::optional<std::string> blob_name(const Json& layer) {
  constexpr size_t kPrefix = std::string_view("sha256:").size();
  if (!layer.contains("digest") || !layer["digest"].is_string()) return std::nullopt;
  std::string name = layer["digest"].get<std::string>();
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (name.size() != kPrefix + 64 || !(name.starts_with("sha256:") || name.starts_with("sha256-"))) return std::nullopt;
  if (!std::all_of(name.begin() + kPrefix, name.end(), is_hex)) return std::nullopt;
  name[kPrefix - 1] = '-';
  return name;
}

std::optional<OllamaModel> read_model(const fs::path& store, const fs::path& manifest_path) {
  const std::optional<Json> manifest = read_manifest(manifest_path);
  if (!manifest) return std::nullopt;
  const Json* weights = find_layer(*manifest, kModelLayer);
  if (!weights) return std::nullopt;
  const std::optional<std::string> blob = blob_name(*weights);
  if (!blob) return std::nullopt;
  OllamaModel model{.name = model_name(store / "manifests", manifest_path), .blob = store / "blobs" / *blob};
  if (const auto size = weights->find("size"); size != weights->end() && size->is_number_unsigned()) {
    model.declared_bytes = size->get<uint64_t>();
  }
  std::error_code error;
  const uintmax_t bytes = fs::file_size(model.blob, error);
  model.is_missing = static_cast<bool>(error);
  model.bytes = error ? 0 : bytes;
  if (const Json* projector = find_layer(*manifest, kProjectorLayer)) {
    model.has_projector = true;
    if (const auto name = blob_name(*projector)) model.projector = store / "blobs" / *name;
  }
  return model;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return result;
}

// As the list writes it, in lower case and with a tag.
std::string canonical_name(std::string_view name) {
  std::string text = lower(name);
  const size_t last_part = text.rfind('/') + 1;  // npos + 1 is 0
  if (text.find(':', last_part) == std::string::npos) text += ":latest";
  if (text.starts_with(kLibrary)) text.erase(0, kLibrary.size());
  if (constexpr std::string_view kNamespace = "library/"; text.starts_with(kNamespace))
    text.erase(0, kNamespace.size());
  return text;
}

std::string names_of(const std::vector<OllamaModel>& models) {
  std::string names;
  for (const OllamaModel& model : models) names += (names.empty() ? "" : ", ") + model.name;
  return names;
}

double gib(uint64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(uint64_t{1} << 30); }

Result<OllamaModel> check_usable(OllamaModel model) {
  const auto pull_again = [&](const std::string& what) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("--ollama {}: {}; 'ollama pull {}' gets the rest", model.name, what, model.name));
  };
  if (model.is_missing) return pull_again(fmt::format("its weights are not there ({})", model.blob.string()));
  if (model.is_truncated()) {
    return pull_again(fmt::format("its weights are truncated: {} of {} bytes", model.bytes, model.declared_bytes));
  }
  return model;
}

}  // namespace

fs::path ollama_store_path() {
  if (const char* path = std::getenv("OLLAMA_MODELS"); path != nullptr && *path != '\0') return path;
  const char* home = std::getenv("HOME");
  return fs::path(home != nullptr ? home : "") / ".ollama" / "models";
}

Result<std::vector<OllamaModel>> read_ollama_store(const fs::path& store) {
  std::error_code error;
  if (!fs::is_directory(store / "manifests", error)) {
    return fail(ErrorCode::kNotFound, fmt::format("{}: no Ollama store is there; OLLAMA_MODELS can name another place",
                                                  sanitize_utf8(store.string())));
  }
  std::vector<OllamaModel> models;
  for (const fs::path& path : manifest_paths(store / "manifests")) {
    if (auto model = read_model(store, path)) models.push_back(*std::move(model));
  }
  std::ranges::sort(models, {}, &OllamaModel::name);
  return models;
}

Result<OllamaModel> find_ollama_model(const fs::path& store, std::string_view name) {
  T9_TRY(models, read_ollama_store(store));
  const std::string wanted = canonical_name(name);
  std::vector<OllamaModel> similar;
  for (OllamaModel& model : models) {
    const std::string candidate = lower(model.name);
    if (candidate == wanted) return check_usable(std::move(model));
    if (candidate.ends_with("/" + wanted)) similar.push_back(model);
  }
  if (similar.size() == 1) return check_usable(std::move(similar.front()));
  const std::string given = sanitize_utf8(name);
  if (similar.size() > 1) {
    return fail(ErrorCode::kInvalidInput, fmt::format("--ollama {}: could be {}", given, names_of(similar)));
  }
  if (models.empty()) {
    return fail(ErrorCode::kNotFound, fmt::format("--ollama {}: the store at {} is empty; 'ollama pull {}' fills it",
                                                  given, sanitize_utf8(store.string()), given));
  }
  return fail(ErrorCode::kNotFound,
              fmt::format("--ollama {}: Ollama has not pulled it; there is {}", given, names_of(models)));
}

Result<fs::path> link_ollama_model(const OllamaModel& model, const fs::path& folder) {
  std::string file_name = model.name + ".gguf";
  std::ranges::replace_if(
      file_name, [](char c) { return c == ':' || c == '/'; }, '-');
  const fs::path link = folder / file_name;
  std::error_code error;
  const fs::path blob = fs::absolute(model.blob, error);
  if (fs::read_symlink(link, error) == blob) return link;
  // In one step, so that another process that starts now finds the old link or the new one.
  const fs::path unfinished = folder / fmt::format("{}.{}.tmp", file_name, getpid());
  fs::create_directories(folder, error);
  fs::remove(unfinished, error);
  fs::create_symlink(blob, unfinished, error);
  if (!error) fs::rename(unfinished, link, error);
  if (!error) return link;
  const std::string reason = error.message();
  fs::remove(unfinished, error);
  return fail(ErrorCode::kIo, fmt::format("{}: {}", link.string(), reason));
}

std::string describe_ollama_models(const std::vector<OllamaModel>& models) {
  size_t width = 4;
  for (const OllamaModel& model : models) width = std::max(width, model.name.size());
  std::string text = fmt::format("{:{}}  {:>10}  BLOB\n", "NAME", width, "SIZE");
  for (const OllamaModel& model : models) {
    if (model.is_missing) continue;
    text += fmt::format("{:{}}  {:6.2f} GiB  {}", model.name, width, gib(model.bytes), model.blob.string());
    if (model.is_truncated())
      text += fmt::format("  (truncated: the manifest says {:.2f} GiB)", gib(model.declared_bytes));
    if (model.has_projector) text += "  (has a projector: images need --tower)";
    text += '\n';
  }
  return text;
}

}  // namespace tempo9::cli
