#include "server/dialects/metrics.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

namespace tempo9::server {

namespace {

// Prometheus text format: https://prometheus.io/docs/instrumenting/exposition_formats/
struct Metric {
  std::string_view name;
  std::string_view type;
  std::string_view help;
  double (*read)(const engine::ServiceStats& stats);
};

using Stats = engine::ServiceStats;
constexpr auto kMetrics = std::to_array<Metric>({
    {"tempo9_requests_running", "gauge", "Requests in the batch.",
     [](const Stats& s) { return static_cast<double>(s.running); }},
    {"tempo9_requests_waiting", "gauge", "Requests in the queue.",
     [](const Stats& s) { return static_cast<double>(s.waiting); }},
    {"tempo9_requests_cancelled_total", "counter", "Requests whose client went away.",
     [](const Stats& s) { return static_cast<double>(s.cancelled); }},
    {"tempo9_engine_steps_total", "counter", "Passes of the engine.",
     [](const Stats& s) { return static_cast<double>(s.steps); }},
    {"tempo9_last_step_age_seconds", "gauge", "Time since a pass ended, while there is work.",
     [](const Stats& s) { return s.last_step_age_s; }},
    {"tempo9_prompt_tokens_total", "counter", "Prompt tokens taken in.",
     [](const Stats& s) { return static_cast<double>(s.prompt_tokens); }},
    {"tempo9_prompt_tokens_reused_total", "counter", "Of them, tokens whose pages of the KV cache were there already.",
     [](const Stats& s) { return static_cast<double>(s.reused_tokens); }},
    {"tempo9_completion_tokens_total", "counter", "Tokens sampled.",
     [](const Stats& s) { return static_cast<double>(s.completion_tokens); }},
    {"tempo9_kv_pages_used", "gauge", "Pages of the KV cache that requests use.",
     [](const Stats& s) { return static_cast<double>(s.kv_pages_used); }},
    {"tempo9_kv_pages_kept", "gauge", "Pages kept for requests to come, whether or not one uses them too.",
     [](const Stats& s) { return static_cast<double>(s.kv_pages_kept); }},
    {"tempo9_kv_evictions_total", "counter", "Kept pages that made room for others.",
     [](const Stats& s) { return static_cast<double>(s.kv_evictions); }},
    {"tempo9_kv_pages_limit", "gauge", "Pages the KV cache may have.",
     [](const Stats& s) { return static_cast<double>(s.kv_pages_total); }},
    {"tempo9_rows_decode_total", "counter", "Rows of passes that continued an answer.",
     [](const Stats& s) { return static_cast<double>(s.decode_rows); }},
    {"tempo9_rows_prefill_total", "counter", "Rows of passes that read a prompt.",
     [](const Stats& s) { return static_cast<double>(s.prefill_rows); }},
    {"tempo9_step_seconds_total", "counter", "Time that passes took.", [](const Stats& s) { return s.step_s; }},
    {"tempo9_thread_wait_seconds_total", "counter", "Of it, time that the engine's thread waited for the others.",
     [](const Stats& s) { return s.thread_wait_s; }},
    {"tempo9_weight_bytes_read_total", "counter",
     "Weights that passes had to read, each once a pass; of experts those that its rows can be expected to choose.",
     [](const Stats& s) { return static_cast<double>(s.weight_bytes_read); }},
    {"tempo9_kv_bytes_read_total", "counter", "K and V that passes had to read, each once for each of their requests.",
     [](const Stats& s) { return static_cast<double>(s.kv_bytes_read); }},
    {"tempo9_memory_budget_bytes", "gauge", "Memory that serving may take beside the weights (--memory).",
     [](const Stats& s) { return static_cast<double>(s.memory.budget_bytes); }},
    {"tempo9_memory_activation_bytes", "gauge", "Of it, working memory and logits of the largest pass.",
     [](const Stats& s) { return static_cast<double>(s.memory.activation_bytes); }},
    {"tempo9_memory_disk_buffer_bytes", "gauge", "Of it, what the disk cache's reads and writes take at most.",
     [](const Stats& s) { return static_cast<double>(s.memory.disk_buffer_bytes); }},
    {"tempo9_memory_speculation_bytes", "gauge",
     "Of it, what guessing takes: the block that guesses, and rows that may be taken back.",
     [](const Stats& s) { return static_cast<double>(s.memory.speculation_bytes); }},
    {"tempo9_memory_image_row_bytes", "gauge", "Of it, rows of images in one pass.",
     [](const Stats& s) { return static_cast<double>(s.memory.image_row_bytes); }},
    {"tempo9_kv_resident_bytes", "gauge", "Of it, pages of the KV cache that are paid for.",
     [](const Stats& s) { return static_cast<double>(s.memory.pages_resident_bytes); }},
    {"tempo9_kv_reserved_bytes", "gauge", "Address space of all pages.",
     [](const Stats& s) { return static_cast<double>(s.memory.pages_reserved_bytes); }},
    {"tempo9_kv_bytes_per_token", "gauge", "Of the KV cache, over all layers.",
     [](const Stats& s) { return s.memory.bytes_per_token; }},
    {"tempo9_states_used_bytes", "gauge", "Recurrent states of requests, those from before guesses included.",
     [](const Stats& s) {
       return static_cast<double>(s.memory.states_used) * static_cast<double>(s.memory.state_bytes);
     }},
    {"tempo9_states_kept_bytes", "gauge", "Recurrent states kept for requests to come.",
     [](const Stats&
            s) { return static_cast<double>(s.memory.states_kept) * static_cast<double>(s.memory.state_bytes); }},
    {"tempo9_kv_disk_bytes", "gauge", "Bytes in the folder of the disk cache, of every model.",
     [](const Stats& s) { return static_cast<double>(s.disk.bytes); }},
    {"tempo9_kv_disk_segments", "gauge", "Files of the disk cache that this model can use.",
     [](const Stats& s) { return static_cast<double>(s.disk.segments); }},
    {"tempo9_kv_restored_tokens_total", "counter", "Tokens whose pages came from the disk cache.",
     [](const Stats& s) { return static_cast<double>(s.disk.restored_tokens); }},
    {"tempo9_kv_restored_spans_total", "counter", "Files of the disk cache that were taken in.",
     [](const Stats& s) { return static_cast<double>(s.disk.restored_spans); }},
    {"tempo9_kv_disk_wait_seconds_total", "counter", "Time that requests waited for the disk cache, each counted.",
     [](const Stats& s) { return s.disk_wait_s; }},
    {"tempo9_kv_disk_written_bytes_total", "counter", "Bytes written to the disk cache.",
     [](const Stats& s) { return static_cast<double>(s.disk.written_bytes); }},
    {"tempo9_kv_disk_read_bytes_total", "counter", "Bytes read from the disk cache.",
     [](const Stats& s) { return static_cast<double>(s.disk.read_bytes); }},
    {"tempo9_kv_disk_evictions_total", "counter", "Files of the disk cache that made room.",
     [](const Stats& s) { return static_cast<double>(s.disk.evicted); }},
    {"tempo9_kv_disk_damaged_total", "counter", "Files of the disk cache that were found damaged, and dropped.",
     [](const Stats& s) { return static_cast<double>(s.disk.damaged); }},
    {"tempo9_kv_disk_failed_writes_total", "counter", "Files that could not be written to the disk cache.",
     [](const Stats& s) { return static_cast<double>(s.disk.failed_writes); }},
    {"tempo9_pass_base_milliseconds", "gauge", "Fitted time of a pass beside its rows (0 without speculation).",
     [](const Stats& s) { return s.speculation.pass_ms; }},
    {"tempo9_pass_row_milliseconds", "gauge", "Fitted time that a row adds to a pass.",
     [](const Stats& s) { return s.speculation.row_ms; }},
    {"tempo9_pass_fit_error", "gauge", "Median relative error of that fit's predictions.",
     [](const Stats& s) { return s.speculation.median_error; }},
    {"tempo9_draft_pass_milliseconds", "gauge", "Time of a pass of the block that guesses.",
     [](const Stats& s) { return s.speculation.draft_ms; }},
});

void write_head(std::string& page, std::string_view name, std::string_view type, std::string_view help) {
  page += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

struct HistogramMetric {
  std::string_view name;
  std::string_view help;
  engine::Histogram Stats::*histogram;
};
constexpr auto kHistograms = std::to_array<HistogramMetric>({
    {"tempo9_time_to_first_token_seconds", "From a request's arrival in the queue to its first token.",
     &Stats::first_token_s},
    {"tempo9_time_in_queue_seconds", "From a request's arrival in the queue to the first pass that read of its prompt.",
     &Stats::queue_s},
    {"tempo9_token_gap_seconds", "Between two tokens of a request.", &Stats::token_gap_s},
    {"tempo9_request_seconds", "From a request's arrival in the queue to its end.", &Stats::request_s},
});

void write_histograms(std::string& page, const Stats& stats) {
  for (const HistogramMetric& metric : kHistograms) {
    const engine::Histogram& histogram = stats.*metric.histogram;
    write_head(page, metric.name, "histogram", metric.help);
    uint64_t count = 0;
    for (size_t i = 0; i < histogram.bounds.size(); ++i) {
      count += histogram.counts[i];
      page += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", metric.name, histogram.bounds[i], count);
    }
    count += histogram.counts[histogram.bounds.size()];
    page +=
        fmt::format("{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", metric.name, count, histogram.sum);
  }
}

void write_ended(std::string& page, const engine::EndedCounts& ended) {
  constexpr std::string_view kName = "tempo9_requests_ended_total";
  write_head(page, kName, "counter", "Requests that have ended, by how.");
  for (const auto& [finish, n] : {std::pair{"stop", ended.stop}, std::pair{"length", ended.length},
                                  std::pair{"cancelled", ended.cancelled}, std::pair{"error", ended.error}}) {
    page += fmt::format("{}{{finish=\"{}\"}} {}\n", kName, finish, n);
  }
}

std::string escape_label(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

void write_info(std::string& page, const ServerContext& context) {
  write_head(page, "tempo9_info", "gauge", "1; what runs is in the labels.");
  page +=
      fmt::format("tempo9_info{{version=\"{}\",model=\"{}\",architecture=\"{}\",compute=\"{}\"}} 1\n", version(),
                  escape_label(context.model.name), escape_label(context.model.family), escape_label(context.compute));
  write_head(page, "tempo9_context_tokens", "gauge", "Tokens that a prompt and its answer may have together.");
  page += fmt::format("tempo9_context_tokens {}\n", context.engine.context_length());
}

// What the engine guesses ahead of its steps, by where the guess came from and how far ahead it was.
void write_speculation(std::string& page, const engine::SpeculationStats& stats) {
  constexpr std::array<std::string_view, engine::kDrafters> kNames = {"text", "block"};  // by Drafter
  const auto write_by_depth = [&](std::string_view name, std::string_view help, auto counts_of) {
    write_head(page, name, "counter", help);
    for (size_t drafter = 0; drafter < kNames.size(); ++drafter) {
      const auto& counts = counts_of(stats.drafters[drafter]);
      for (size_t depth = 0; depth < counts.size(); ++depth) {
        if (stats.drafters[drafter].proposed[depth] == 0) break;
        page += fmt::format("{}{{drafter=\"{}\",depth=\"{}\"}} {}\n", name, kNames[drafter], depth + 1, counts[depth]);
      }
    }
  };
  write_by_depth("tempo9_speculation_drafts_total", "Tokens guessed and verified.",
                 [](const engine::DrafterStats& s) -> const auto& { return s.proposed; });
  write_by_depth("tempo9_speculation_accepted_total", "Guessed tokens that were right.",
                 [](const engine::DrafterStats& s) -> const auto& { return s.accepted; });
  write_head(page, "tempo9_speculation_gate_closings_total", "counter", "Times that a request stopped guessing.");
  for (size_t drafter = 0; drafter < kNames.size(); ++drafter) {
    page += fmt::format("tempo9_speculation_gate_closings_total{{drafter=\"{}\"}} {}\n", kNames[drafter],
                        stats.drafters[drafter].gate_closings);
  }
  write_head(page, "tempo9_speculation_gates", "gauge", "Running requests that guess, or have stopped for a while.");
  for (size_t drafter = 0; drafter < kNames.size(); ++drafter) {
    const engine::DrafterStats& s = stats.drafters[drafter];
    for (const auto& [state, n] : {std::pair{"open", s.gates_open}, std::pair{"closed", s.gates_closed}}) {
      page += fmt::format("tempo9_speculation_gates{{drafter=\"{}\",state=\"{}\"}} {}\n", kNames[drafter], state, n);
    }
  }
  write_head(page, "tempo9_speculation_choices_total", "counter", "Choices of how many tokens to guess.");
  for (size_t depth = 0; depth < stats.steps_by_depth.size(); ++depth) {
    page += fmt::format("tempo9_speculation_choices_total{{tokens=\"{}\"}} {}\n", depth, stats.steps_by_depth[depth]);
  }
}

struct ImageMetric {
  std::string_view name;
  std::string_view type;
  std::string_view help;
  double (*read)(const vision::ImageServiceStats& stats);
};

using ImageStats = vision::ImageServiceStats;
constexpr auto kImageMetrics = std::to_array<ImageMetric>({
    {"tempo9_images_waiting", "gauge", "Images that are encoded, or wait for it.",
     [](const ImageStats& s) { return static_cast<double>(s.waiting); }},
    {"tempo9_images_encoded_total", "counter", "Images encoded.",
     [](const ImageStats& s) { return static_cast<double>(s.encoded); }},
    {"tempo9_images_reused_total", "counter", "Images whose rows were there, or on their way.",
     [](const ImageStats& s) { return static_cast<double>(s.hits); }},
    {"tempo9_images_cancelled_total", "counter", "Images whose clients went away before they were encoded.",
     [](const ImageStats& s) { return static_cast<double>(s.cancelled); }},
    {"tempo9_images_failed_total", "counter", "Images that could not be encoded.",
     [](const ImageStats& s) { return static_cast<double>(s.failed); }},
    {"tempo9_image_encode_seconds_total", "counter", "Time that encoding took.",
     [](const ImageStats& s) { return s.encode_s; }},
    {"tempo9_image_cache_bytes", "gauge", "Rows of images kept for requests to come.",
     [](const ImageStats& s) { return static_cast<double>(s.cached_bytes); }},
});

// With a vision tower only.
void write_images(std::string& page, const ImageStats& stats) {
  for (const ImageMetric& metric : kImageMetrics) {
    write_head(page, metric.name, metric.type, metric.help);
    page += fmt::format("{} {}\n", metric.name, metric.read(stats));
  }
}

// The counter is left out where there is none: a zero would be a measurement.
void write_energy(std::string& page, const Stats& stats) {
  write_head(page, "tempo9_energy_reported", "gauge", "Whether this machine reports energy (Linux powercap), 0 or 1.");
  page += fmt::format("tempo9_energy_reported {}\n", stats.energy_j ? 1 : 0);
  if (!stats.energy_j) return;
  write_head(page, "tempo9_energy_joules_total", "counter",
             "Energy of processors and memory while passes ran; other programs' part is in it.");
  page += fmt::format("tempo9_energy_joules_total {}\n", *stats.energy_j);
}

}  // namespace

std::string metrics_page(const App& app) {
  const Stats stats = app.context.engine.stats();
  std::string page;
  write_info(page, app.context);
  for (const Metric& metric : kMetrics) {
    write_head(page, metric.name, metric.type, metric.help);
    page += fmt::format("{} {}\n", metric.name, metric.read(stats));
  }
  write_ended(page, stats.ended);
  write_histograms(page, stats);
  write_speculation(page, stats.speculation);
  if (app.context.images) write_images(page, app.context.images->service.stats());
  write_energy(page, stats);
  return page;
}

}  // namespace tempo9::server
