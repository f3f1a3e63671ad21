#include "cli/start_summary.h"

#include <fmt/format.h>

#include <string>

#include "cli/main_dtype.h"
#include "cli/memory.h"
#include "kv/sizes.h"
#include "tensor/kv_type_names.h"

namespace tempo9::cli {

namespace {

double kv_bytes_per_token(const ServedModel& served) {
  const size_t page = kv::page_bytes(*served.backend, served.model.program.kv_layers, served.engine_options.kv_type);
  return static_cast<double>(page) / static_cast<double>(tensor::kPageTokens);
}

// "KV cache (q8_0) 22 KiB per token (180 MiB for a full context), taken as tokens arrive"
std::string describe_cache(const ServedModel& served) {
  const double per_token = kv_bytes_per_token(served);
  const auto context = static_cast<double>(served.engine_options.context_length);
  const auto state = static_cast<double>(kv::state_bytes(served.model.program.state_layers));
  return fmt::format("KV cache ({}) {} per token ({} for a full context), {}taken as tokens arrive",
                     tensor::kv_type_name(served.engine_options.kv_type), human_bytes(per_token),
                     human_bytes(per_token * context),
                     state > 0.0 ? fmt::format("state {} per request, ", human_bytes(state)) : "");
}

std::string describe_disk(const ServedModel& served) {
  const kv::disk::Options& disk = served.engine_options.disk;
  if (disk.root.empty()) return "";
  return fmt::format(", and on disk, up to {} in {}", human_bytes(static_cast<double>(disk.cap_bytes)), disk.root);
}

std::string describe_context(const ServedModel& served, const ServeOptions& options, int64_t context_length) {
  const int64_t trained = served.model.info.context_length;
  if (context_length < served.engine_options.context_length) {
    return fmt::format("{} tokens, for which the memory budget has room (--memory gives more)", context_length);
  }
  if (options.max_length <= trained) {
    return fmt::format("{} tokens (the model allows {})", context_length, trained);
  }
  return fmt::format("{} tokens (--max-length {} clamped to what the model declares)", trained, options.max_length);
}

std::string describe_images(const ServeOptions& options, const ServedModel& served) {
  return options.tower.empty() ? "" : fmt::format("  images   looked at by {} ({})\n", options.tower, served.tower);
}

}  // namespace

void print_start_summary(const ServedModel& served, const ServeOptions& options, int64_t context_length,
                         uint16_t port) {
  const models::ModelInfo& info = served.model.info;
  const auto file_bytes = static_cast<double>(served.file->size_bytes());
  const std::string url = fmt::format("http://127.0.0.1:{}", port);
  fmt::print(stderr,
             "tempo9 {}\n"
             "  model    {} ({}, {} parameters, {}, mostly {})\n"
             "  context  {}\n"
             "{}"
             "  compute  {}, {} requests at once\n"
             "  memory   weights {}; up to {} for the rest: {}\n"
             "  reuse    earlier prompts and answers are kept in half of that{}\n"
             "  address  {}\n\n"
             "Try:\n  curl -N {}/v1/chat/completions -d '{{\"stream\":true,\"messages\":"
             "[{{\"role\":\"user\",\"content\":\"Hello!\"}}]}}'\n\n",
             TEMPO9_VERSION, served.name, info.architecture, human_count(info.n_parameters), human_bytes(file_bytes),
             main_dtype(*served.file), describe_context(served, options, context_length),
             describe_images(options, served), served.backend->description(), options.max_batch,
             human_bytes(file_bytes), human_bytes(static_cast<double>(served.engine_options.memory_bytes)),
             describe_cache(served), describe_disk(served), url, url);
}

}  // namespace tempo9::cli
