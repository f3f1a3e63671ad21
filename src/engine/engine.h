// The engine: one thread that schedules, runs and samples. Its loop is plan, run, commit (docs/architecture.md).
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "backends/backend.h"
#include "base/energy_meter.h"
#include "engine/memory_plan.h"
#include "engine/service.h"
#include "engine/speculation/options.h"
#include "engine/step_times.h"
#include "kv/disk/store.h"
#include "models/model.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::engine {

struct EngineOptions {
  int64_t context_length = 32768;  // per sequence; clamped by the caller to what the model declares
  int64_t max_batch = 16;          // sequences that run at once
  int64_t max_step_rows = 512;
  // What a step may take before prompts are read in passes of their own, some parts with each step (step_times.h). 0:
  // one part with each.
  double step_ms = StepTimes::kTargetMs;
  tensor::KvType kv_type = tensor::KvType::kF16;
  // For everything that serving takes beside the weights (memory_plan.h); it then decides the two values that follow.
  // 0: they are as given.
  size_t memory_bytes = 0;
  int64_t kv_tokens = 0;  // tokens the KV cache may hold in all; 0: max_batch * context_length, address space only
  // Memory for pages and recurrent states that are kept for requests to come; 0: nothing is kept. States get at most a
  // quarter of it.
  size_t kept_bytes = size_t{1} << 30;
  // Where what is kept outlives the process; without a root, or with no kept_bytes, nowhere.
  kv::disk::Options disk = {};
  // With nothing to do for so long, what is on disk leaves memory.
  std::chrono::milliseconds idle_return = std::chrono::minutes(5);
  SpeculationOptions speculation;
  bool takes_images = false;  // memory is set aside for their rows
  // Read around each pass, on the engine's thread; outlives the engine. Null: energy is not counted.
  EnergyMeter* energy = nullptr;
};

// What an engine needs, and what it would do with the memory that it is given.
struct PlannedMemory {
  MemoryNeeds needs;
  MemoryPlan plan;
};

// As create() does it, without creating anything. Errors: kInvalidInput for options out of range and for a budget
// without room.
Result<PlannedMemory> plan_engine_memory(const backends::Backend& backend, const models::Model& model,
                                         const EngineOptions& options);

class Engine : public Service {
 public:
  // `backend`, `model` and `tokenizer` must outlive the engine. Starts its thread.
  static Result<std::unique_ptr<Engine>> create(backends::Backend& backend, const models::Model& model,
                                                const tokenizer::Tokenizer& tokenizer, const EngineOptions& options);

  // Ends running requests with kCancelled after their current step, refuses new ones, joins the thread. Idempotent.
  virtual void stop() = 0;
};

}  // namespace tempo9::engine
