// The models that Ollama has pulled, read where they lie. Nothing in its store is ever written.
//
// Layout: manifests/HOST/NAMESPACE/MODEL/TAG are small JSON files that list layers; a layer's bytes are
// blobs/sha256-HEX for its digest "sha256:HEX". The weights are the layer of media type
// application/vnd.ollama.image.model. Ollama need not run, nor be installed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tempo9::cli {

struct OllamaModel {
  std::string name;                      // "qwen3:8b"; outside registry.ollama.ai/library "host/namespace/model:tag"
  std::filesystem::path blob;            // the weights: a GGUF file
  uint64_t bytes = 0;                    // of the blob as it is on disk; 0 when it is missing
  uint64_t declared_bytes = 0;           // what the manifest says
  bool is_missing = false;               // no such blob: the pull was interrupted, or it was deleted
  bool has_projector = false;            // the model has a layer for images, which tempo9 does not load
  std::filesystem::path projector = {};  // its blob; empty when the manifest's digest is none

  bool is_truncated() const { return !is_missing && bytes < declared_bytes; }
};

// $OLLAMA_MODELS, or ~/.ollama/models.
std::filesystem::path ollama_store_path();

// Every model with a readable manifest, by name. Manifests that can't be read or name no weights are left out.
// Errors: kNotFound when there is no store at `store`.
Result<std::vector<OllamaModel>> read_ollama_store(const std::filesystem::path& store);

// The one that `name` means: as in the list, with the registry's name in front of it, or short ("model:tag",
// "namespace/model:tag") where only one model ends like that. Without a tag it is ":latest". Letter case is ignored.
// Errors: kNotFound, with what there is; kInvalidInput when a short name fits several, or its blob is missing or
// truncated.
Result<OllamaModel> find_ollama_model(const std::filesystem::path& store, std::string_view name);

// A link to the blob with a name that tells what it is, NAME-TAG.gguf in `folder`. One that points elsewhere is
// replaced. Errors: kIo.
Result<std::filesystem::path> link_ollama_model(const OllamaModel& model, const std::filesystem::path& folder);

// The table that --list-ollama prints: name, size, blob, and what is wrong with it. Models without a blob are left out.
std::string describe_ollama_models(const std::vector<OllamaModel>& models);

}  // namespace tempo9::cli
