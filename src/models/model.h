// From a GGUF file to a program and its weights. One file per architecture, listed in list.cpp.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/file.h"
#include "tensor/program.h"
#include "tensor/views.h"

namespace tempo9::models {

// What people and the APIs want to know about a model.
struct ModelInfo {
  std::string architecture;
  std::string name;            // general.name, may be empty
  int64_t context_length = 0;  // trained context
  int64_t n_layers = 0;
  int64_t n_embd = 0;
  int64_t n_vocab = 0;       // columns of the logits
  int64_t n_parameters = 0;  // elements of all tensors in use
  // Rows of one image see each other in both directions (spec models 13.4), so they are computed in one pass.
  bool sees_whole_images = false;
};

// A block that drafts the token after next: a program of its own, which shares weights with the model's. In row i it
// reads the hidden state (Program::hidden) of the token at the row's slot and position, as Batch::hidden, and the token
// that follows, as Batch::tokens; it keeps K and V of its own. Its own hidden state stands in for the model's to draft
// one more token: rows whose logits are wanted have one (RowSet::kOutputs), and the others give K and V only. The
// model's program has one in every row.
struct DraftModel {
  tensor::Program program;
  std::vector<tensor::WeightView> weights;
};

// A model ready to be compiled by a backend. Immutable. `weights[i]` belongs to `program.weights[i]` and points into
// `file`.
struct Model {
  std::shared_ptr<const gguf::File> file;
  ModelInfo info;
  tensor::Program program;
  std::vector<tensor::WeightView> weights;
  std::optional<DraftModel> draft;        // only where the file has such a block
  std::vector<std::string> read_tensors;  // those whose values went into the program
  std::vector<std::string> warnings;      // lines to log: what of the file the model does not use
};

// Columns that the rows of Batch::embeddings need: those of a token's embedding, and more where layers read further
// parts (deepstack).
int64_t embedding_cols(const tensor::Program& program);

// Rows that an image may have: where its rows see each other, as many as the smallest window shows them of each other;
// INT64_MAX elsewhere.
int64_t most_image_rows(const Model& model);

// Errors: kUnsupported for an architecture, a tensor type or a feature that is not implemented, by name;
// kInvalidInput for missing or contradictory metadata, by key, and for missing or misshapen tensors, by name.
Result<Model> load_model(std::shared_ptr<const gguf::File> file);

// An architecture's entry in list.cpp.
struct Architecture {
  std::string_view name;  // general.architecture
  Result<Model> (*load)(std::shared_ptr<const gguf::File> file);
};
std::span<const Architecture> all_architectures();

}  // namespace tempo9::models
