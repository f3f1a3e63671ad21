// What runs a Program: the interface of every backend.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/buffer.h"
#include "base/result.h"
#include "tensor/batch.h"
#include "tensor/program.h"
#include "tensor/views.h"

namespace tempo9::backends {

// Bytes of one page (kPageTokens tokens) of one layer.
struct KvPageBytes {
  size_t k = 0;
  size_t v = 0;
};

// Sees each named value as soon as it is computed; the view is valid during the call. For tests and traces: a run with
// an observer may be slower, never different.
using Observer = std::function<void(tensor::ValueId, tensor::MatView<const float>)>;

// Where a pass leaves its results.
struct RunOutputs {
  tensor::MatView<float> logits;       // batch.n_outputs() rows; with none wanted it may be empty
  tensor::MatView<float> hidden = {};  // the rows of Program::hidden, as its RowSet says; left out when empty
};

// A program bound to weights and working memory. One thread at a time.
class Executable {
 public:
  virtual ~Executable() = default;

  // Runs one pass.
  // REQUIRES: n_rows <= max_rows and n_outputs <= max_outputs of the CompileOptions; tokens within the vocabulary;
  // pages present for each slot, states for each sequence if the program has state layers; at most max_trial_rows rows
  // of sequences whose states are on trial.
  virtual void run(const tensor::Batch& batch, const RunOutputs& outputs, const Observer* observer = nullptr) = 0;

  // The same pass in parts, so that other executables may run in between: how many there are; all of them, from 0 on,
  // leave the bits of run().
  // REQUIRES: as run(); no state is on trial; nothing else is run on this executable until the last part; the batch is
  // the same for all, though its views may lie elsewhere.
  virtual int64_t begin_parts(const tensor::Batch& batch) = 0;
  virtual void run_part(const tensor::Batch& batch, const RunOutputs& outputs, int64_t part) = 0;

  // Takes states to a part of the last pass (spec models 7.5): advances states.state(l, s) by the first n_rows[s] rows
  // that its sequence s had on trial, with the operations of that pass in the same order, so the bits are those of a
  // pass that ended there. Sequences with 0 are left alone.
  // REQUIRES: the sequences of the last pass by the same index, and of those with rows here the states from before it.
  virtual void replay(const tensor::StateView& states, std::span<const int64_t> n_rows) = 0;

  // Seconds since start that who calls run() had nothing to compute and waited for the backend's other threads.
  virtual double waited_s() const { return 0.0; }
};

struct CompileOptions {
  int64_t max_rows = 512;
  int64_t max_outputs = 64;
  int64_t max_trial_rows = 0;  // of one pass; memory is paid for as they are used
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;         // "cpu"
  virtual std::string description() const = 0;  // "cpu avx512-vnni, 2 threads": one line for people

  // Memory for KV pools, zero-filled, paid for as it is touched.
  virtual Result<Buffer> reserve(size_t bytes) = 0;
  // KV types this backend can hold; the first is its default.
  virtual std::span<const tensor::KvType> kv_types() const = 0;
  // REQUIRES: `type` is among kv_types().
  virtual KvPageBytes kv_page_bytes(const tensor::KvLayerSpec& layer, tensor::KvType type) const = 0;

  // Binds a program to its weights (one view per program.weights, same order), which must outlive the executable.
  // Errors: kUnsupported, naming the op or the weight that this backend can't run.
  virtual Result<std::unique_ptr<Executable>> compile(const tensor::Program& program,
                                                      std::span<const tensor::WeightView> weights,
                                                      const CompileOptions& options) = 0;
};

}  // namespace tempo9::backends
