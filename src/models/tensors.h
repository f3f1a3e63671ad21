// From a file's tensors to a program's weights, with the checks of spec gguf 1.6 (M5, M7).
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/builder.h"
#include "models/hyperparameters.h"
#include "models/model.h"

namespace tempo9::models {

// Binds tensors by name and keeps their views in the order of the program's weights. The first mistake is kept for
// status(); from then on all weights come back empty, so an architecture binds everything and asks once, before it
// uses any. `file` and `builder` must outlive it.
class TensorBinder {
 public:
  TensorBinder(const gguf::File& file, graph::Builder& builder) : file_(file), builder_(builder) {}

  // A weight matrix of a usable type with ne = [cols, rows], or a stack of them (experts): [cols, rows, depth].
  graph::Weight matrix(const std::string& name, int64_t cols, int64_t rows, int64_t depth = 1);
  // Norm weights and biases: `elements` F32 values, or `count` rows of them (biases of experts).
  graph::Weight vector(const std::string& name, int64_t elements, int64_t count = 1);
  // The same; empty, and no mistake, when the file has no such tensor.
  graph::Weight find_matrix(const std::string& name, int64_t cols, int64_t rows, int64_t depth = 1);
  graph::Weight find_vector(const std::string& name, int64_t elements, int64_t count = 1);
  // Finite values above zero of an optional F32 tensor that the program does not read itself; none when it is absent.
  std::vector<float> find_positive_values(const std::string& name, int64_t elements);

  // Tensors whose names begin so are known and not wanted: unused_tensors() passes over them.
  void leave_out(std::string prefix) { left_out_.push_back(std::move(prefix)); }
  // Tensors that `other` has bound, for another program of the same model, are not unused.
  void share_use(const TensorBinder& other) { used_.insert(other.used_.begin(), other.used_.end()); }

  bool has(std::string_view name) const { return file_.find_tensor(name) != nullptr; }
  Result<void> status() const;
  // The tensor whose absence is what status() reports; empty when that is another mistake, or none.
  const std::string& missing() const { return missing_; }

  // Of a model whose weights are all bound. The file's other tensors become warnings; kUnsupported when one of them
  // would change the meaning of a weight.
  Result<std::vector<std::string>> unused_tensors() const;
  const std::vector<tensor::WeightView>& views() const { return views_; }
  // Names given to find_positive_values that the file has.
  const std::vector<std::string>& read_tensors() const { return read_; }
  // Of all tensors in use, each counted once.
  int64_t n_elements() const;

 private:
  struct Shape {
    int64_t cols = 0;
    int64_t rows = 1;
    int64_t depth = 1;
  };
  const gguf::TensorInfo* require(const std::string& name, const Shape& shape);
  // The same for tensors that must be F32.
  const gguf::TensorInfo* require_floats(const std::string& name, const Shape& shape);
  graph::Weight bind(const gguf::TensorInfo& info);
  void set_failure(ErrorCode code, std::string message);

  const gguf::File& file_;
  graph::Builder& builder_;
  std::vector<tensor::WeightView> views_;
  std::set<std::string, std::less<>> used_;
  std::vector<std::string> read_;
  std::vector<std::string> left_out_;
  std::string missing_;
  std::unique_ptr<Error> failure_;
};

// Rows of the embedding table and of the output head, which agree with the metadata.
struct Vocabulary {
  int64_t n_embeddings = 0;
  int64_t n_logits = 0;
};
Result<Vocabulary> read_vocabulary(const gguf::File& file, const Keys& keys);

// The embedding table and the output head, which is the table again in files without output.weight.
struct Embeddings {
  graph::Weight table;
  graph::Weight head;
};
Embeddings bind_embeddings(TensorBinder& bind, const Vocabulary& vocabulary, int64_t n_embd);

// Name and architecture; the rest is left at its defaults.
Result<ModelInfo> read_names(const gguf::File& file);

// Puts the parts together. REQUIRES: bind.status() holds.
Result<Model> make_model(std::shared_ptr<const gguf::File> file, const DecoderParams& params, const TensorBinder& bind,
                         tensor::Program program);

}  // namespace tempo9::models
