// `tempo9 inspect`: what is in a model file and what it would cost to run it, as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/cpu/cpu.h"
#include "base/utf8.h"
#include "chat/chat_format.h"
#include "chat/known_templates.h"
#include "cli/commands.h"
#include "cli/kv_type.h"
#include "cli/memory.h"
#include "cli/serve_options.h"
#include "cli/weight_use.h"
#include "engine/memory_plan.h"
#include "engine/speculation/speculator.h"
#include "gguf/file.h"
#include "kernels/kernels.h"
#include "kv/disk/store.h"
#include "kv/sizes.h"
#include "models/model.h"
#include "quant/quant.h"
#include "tensor/kv_type_names.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::cli {
namespace {

using Json = nlohmann::ordered_json;

// Longer values are shown by their beginning, unless --full is given.
constexpr size_t kMaxElements = 16;
constexpr size_t kMaxStringBytes = 512;
// Rows of one engine pass, for the working memory.
constexpr int64_t kPassRows = 512;

struct InspectFlags {
  std::string path;
  std::string isa;
  std::string kv_type;
  int64_t max_length = 32768;
  int64_t max_batch = 16;
  uint64_t memory_bytes = 0;  // 0: what serving would take
  std::string speculation = "0";
  bool full = false;
};

Json string_to_json(const std::string& text, bool full) {
  if (full || text.size() <= kMaxStringBytes) return sanitize_utf8(text);
  return {{"bytes", text.size()}, {"begins", sanitize_utf8(std::string_view(text).substr(0, kMaxStringBytes))}};
}

template <class T>
Json scalar_to_json(const T& value, bool full) {
  if constexpr (std::is_same_v<T, std::string>) {
    return string_to_json(value, full);
  } else {
    return value;
  }
}

Json array_to_json(const gguf::Array& array, bool full) {
  return std::visit(
      [&](const auto& elements) -> Json {
        using Element = typename std::decay_t<decltype(elements)>::value_type;
        const size_t shown = full ? elements.size() : std::min(elements.size(), kMaxElements);
        Json list = Json::array();
        for (size_t i = 0; i < shown; ++i) list.push_back(scalar_to_json<Element>(elements[i], full));
        if (shown == elements.size()) return list;
        return {{"count", elements.size()}, {"begins", std::move(list)}};
      },
      array);
}

Json metadata_to_json(const gguf::Metadata& metadata, bool full) {
  Json json = Json::object();
  for (const auto& [key, value] : metadata.entries()) {
    if (const auto* array = std::get_if<gguf::Array>(&value)) {
      json[key] = array_to_json(*array, full);
    } else {
      json[key] = std::visit([&](const auto& x) { return scalar_to_json(x, full); }, std::get<gguf::Scalar>(value));
    }
  }
  return json;
}

// What happens to a file's tensors: by name, from the loaded model. Null when the model does not load.
class TensorUses {
 public:
  TensorUses(const models::Model* model, const kernels::Isa& isa) : is_known_(model != nullptr), isa_(isa) {
    if (!model) return;
    add(model->program);
    if (model->draft) add(model->draft->program);
  }

  // Adds "use" and, for products, "kernel"; or "refused" with the reason.
  void describe(const gguf::TensorInfo& info, Json& entry) const {
    const auto usable = quant::check_weight_type(info.name, static_cast<uint32_t>(info.dtype));
    if (!usable && tensor::dtype_info(info.dtype).state != tensor::DTypeState::kPlain) {
      entry["refused"] = sanitize_utf8(usable.error().message());
      return;
    }
    if (!is_known_) return;
    entry["use"] = Json::array();
    const auto found = uses_.find(info.name);
    if (found == uses_.end()) return;
    if (found->second.is_lookup) entry["use"].push_back("lookup");
    if (found->second.is_vector) entry["use"].push_back("vector");
    if (!found->second.is_product) return;
    entry["use"].push_back("product");
    entry["kernel"] = product_kernel(isa_, info.dtype);
  }

 private:
  void add(const tensor::Program& program) {
    const std::vector<WeightUse> uses = weight_uses(program);
    for (size_t i = 0; i < uses.size(); ++i) {
      WeightUse& use = uses_[program.weights[i].name];
      use.is_lookup |= uses[i].is_lookup;
      use.is_product |= uses[i].is_product;
      use.is_vector |= uses[i].is_vector;
    }
  }

  bool is_known_;
  const kernels::Isa& isa_;
  std::map<std::string, WeightUse, std::less<>> uses_;
};

Json tensors_to_json(const gguf::File& file, const TensorUses& uses) {
  Json list = Json::array();
  for (const gguf::TensorInfo& info : file.tensors()) {
    Json entry = {{"name", sanitize_utf8(info.name)},
                  {"type", tensor::dtype_name(info.dtype)},
                  {"shape", std::vector<int64_t>(info.ne, info.ne + info.n_dims)},
                  {"bytes", info.bytes}};
    if (file.n_parts() > 1) entry["part"] = info.part;
    uses.describe(info, entry);
    list.push_back(std::move(entry));
  }
  return list;
}

// Tensors and bytes of each type, and how products with it are computed.
Json types_to_json(const gguf::File& file, const kernels::Isa& isa) {
  struct Total {
    int64_t n_tensors = 0;
    uint64_t bytes = 0;
  };
  std::map<tensor::DType, Total> totals;
  for (const gguf::TensorInfo& info : file.tensors()) {
    Total& total = totals[info.dtype];
    ++total.n_tensors;
    total.bytes += info.bytes;
  }
  Json json = Json::object();
  for (const auto& [dtype, total] : totals) {
    Json& entry = json[std::string(tensor::dtype_name(dtype))];
    entry = {{"tensors", total.n_tensors}, {"bytes", total.bytes}};
    if (quant::find_type(dtype)) entry["product_kernel"] = product_kernel(isa, dtype);
  }
  return json;
}

// Bytes of one token in one layer.
int64_t token_bytes(const tensor::KvLayerSpec& layer, tensor::KvType type) {
  const backends::KvPageBytes page = backends::cpu_kv_page_bytes(layer, type);
  return static_cast<int64_t>(page.k + page.v) / tensor::kPageTokens;
}

// Tokens a layer holds of a sequence of `length`, in whole pages; a sliding one also those of the pass that runs.
int64_t kept_tokens(const tensor::KvLayerSpec& layer, int64_t length) {
  const int64_t kept = layer.window > 0 ? std::min(length, layer.window + kPassRows) : length;
  return (kept + tensor::kPageTokens - 1) / tensor::kPageTokens * tensor::kPageTokens;
}

// How serving would divide the budget.
Json budget_to_json(const models::Model& model, const InspectFlags& flags, tensor::KvType kv_type) {
  const engine::SpeculationOptions speculation{.max_depth = speculation_depth(flags.speculation)};
  int64_t page_bytes = 0;
  for (const tensor::KvLayerSpec& layer : engine::Speculator::kv_layers(model, speculation)) {
    page_bytes += token_bytes(layer, kv_type) * tensor::kPageTokens;
  }
  const int64_t max_outputs = std::min(kPassRows, flags.max_batch * (1 + speculation.max_depth));
  const engine::MemoryNeeds needs{.activations = engine::open_passes_bytes(model.program, model.info.n_vocab, kPassRows,
                                                                           max_outputs, flags.max_batch),
                                  .disk_buffers = kv::disk::Store::most_memory_bytes({}),
                                  .speculation = engine::Speculator::buffer_bytes(
                                      model, speculation, {.max_step_rows = kPassRows, .max_batch = flags.max_batch}),
                                  .page = static_cast<size_t>(page_bytes),
                                  .state = kv::state_bytes(model.program.state_layers),
                                  .trial_states = speculation.max_depth > 0 ? flags.max_batch : 0,
                                  .max_batch = flags.max_batch,
                                  .context_length = std::min(flags.max_length, model.info.context_length)};
  const size_t budget = flags.memory_bytes > 0 ? flags.memory_bytes : default_memory_bytes(*model.file);
  const auto plan = engine::plan_memory(needs, budget);
  if (!plan) return {{"budget_bytes", budget}, {"error", plan.error().message()}};
  return {{"budget_bytes", budget},
          {"activations_and_logits_bytes", needs.activations},
          {"disk_buffer_bytes", needs.disk_buffers},
          {"speculation_bytes", needs.speculation},
          {"running_state_bytes", static_cast<size_t>(needs.max_batch) * needs.state},
          {"trial_state_bytes", static_cast<size_t>(needs.trial_states) * needs.state},
          {"kept_state_bytes", static_cast<size_t>(plan->kept_states) * needs.state},
          {"pages_bytes", static_cast<size_t>(plan->pages) * needs.page},
          {"page_tokens", plan->pages * tensor::kPageTokens},
          {"context_length", plan->context_length}};
}

Json memory_to_json(const models::Model& model, const InspectFlags& flags, tensor::KvType kv_type) {
  const int64_t length = std::min(flags.max_length, model.info.context_length);
  uint64_t weights_bytes = 0;
  for (const tensor::WeightView& view : model.weights) weights_bytes += view.size_bytes();
  int64_t per_token = 0;
  int64_t per_token_sliding = 0;
  int64_t at_length = 0;
  for (const tensor::KvLayerSpec& layer : model.program.kv_layers) {
    (layer.window > 0 ? per_token_sliding : per_token) += token_bytes(layer, kv_type);
    at_length += token_bytes(layer, kv_type) * kept_tokens(layer, length);
  }
  return {{"weights_bytes", weights_bytes},
          {"kv_type", tensor::kv_type_name(kv_type)},
          {"kv_bytes_per_token", per_token + per_token_sliding},
          {"kv_bytes_per_token_sliding", per_token_sliding},
          {"length", length},
          {"kv_bytes_at_length", at_length},
          {"state_bytes_per_sequence", kv::state_bytes(model.program.state_layers)},
          {"activation_bytes", engine::activation_bytes(model.program, model.info.n_vocab, kPassRows, flags.max_batch)},
          {"activation_rows", kPassRows},
          {"budget", budget_to_json(model, flags, kv_type)}};
}

Json model_to_json(const Result<models::Model>& model, const InspectFlags& flags, tensor::KvType kv_type) {
  if (!model) return {{"supported", false}, {"reason", sanitize_utf8(model.error().message())}};
  return {{"supported", true},
          {"architecture", model->info.architecture},
          {"name", model->info.name},
          {"parameters", model->info.n_parameters},
          {"layers", model->info.n_layers},
          {"embedding_length", model->info.n_embd},
          {"vocabulary", model->info.n_vocab},
          {"context_length", model->info.context_length},
          {"memory", memory_to_json(*model, flags, kv_type)},
          {"warnings", model->warnings}};
}

// Which of the named templates its vocabulary is for, where the file has none of its own.
Json template_to_json(const gguf::Metadata& metadata, const tokenizer::Tokenizer& tokenizer) {
  const auto format = chat::ChatFormat::create(metadata, tokenizer);
  if (format.problem().empty()) return {{"usable", true}, {"tool_dialect", format.dialect().name}};
  const chat::KnownTemplate* known = chat::fitting_template(tokenizer);
  return {{"usable", false},
          {"reason", sanitize_utf8(format.problem())},
          {"known_that_fits", known ? Json(known->name) : Json()}};
}

Json tokenizer_to_json(const gguf::Metadata& metadata) {
  const auto tokenizer = tokenizer::Tokenizer::create(metadata);
  if (!tokenizer) return {{"supported", false}, {"reason", sanitize_utf8(tokenizer.error().message())}};
  return {{"supported", true},
          {"description", sanitize_utf8((*tokenizer)->description())},
          {"tokens", (*tokenizer)->n_tokens()},
          {"chat_template", template_to_json(metadata, **tokenizer)}};
}

Result<const kernels::Isa*> choose_isa(const std::string& name) {
  if (name.empty()) return &kernels::best_isa();
  if (const kernels::Isa* isa = kernels::find_isa(name)) return isa;
  return fail(ErrorCode::kInvalidInput, fmt::format("--isa {}: there is no such instruction set", name));
}

Result<Json> inspect(const InspectFlags& flags) {
  T9_TRY(opened, gguf::File::open(flags.path));
  const std::shared_ptr<const gguf::File> file = std::move(opened);
  T9_TRY(isa, choose_isa(flags.isa));
  const Result<models::Model> model = models::load_model(file);
  T9_TRY(kv_type, choose_kv_type(backends::cpu_kv_types(), flags.kv_type));
  const TensorUses uses(model ? &*model : nullptr, *isa);
  int64_t n_elements = 0;
  for (const gguf::TensorInfo& info : file->tensors()) n_elements += info.elements();
  return Json{{"file", sanitize_utf8(flags.path)},
              {"version", file->version()},
              {"parts", file->n_parts()},
              {"bytes", file->size_bytes()},
              {"elements", n_elements},
              {"model", model_to_json(model, flags, kv_type)},
              {"tokenizer", tokenizer_to_json(file->metadata())},
              {"isa", isa->name},
              {"types", types_to_json(*file, *isa)},
              {"metadata", metadata_to_json(file->metadata(), flags.full)},
              {"tensors", tensors_to_json(*file, uses)}};
}

}  // namespace

void add_inspect_command(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = app.add_subcommand("inspect", "Show what is in a model file, and what it needs, as JSON");
  command->add_option("FILE", flags->path, "GGUF file, or the first one of a split model")->required();
  command->add_option("--max-length", flags->max_length, "Context length for the memory plan")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31))
      ->capture_default_str();
  command->add_option("--max-batch", flags->max_batch, "Requests at once for the memory plan")
      ->check(CLI::Range(int64_t{1}, int64_t{1024}))
      ->capture_default_str();
  command->add_option("--memory", flags->memory_bytes, "Memory budget for the memory plan (default: as for serving)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(true));
  add_speculation_option(*command, flags->speculation);
  command->add_option("--isa", flags->isa,
                      "Instruction set whose kernels are named, of this machine or not (default: the best here)");
  add_kv_type_option(*command, flags->kv_type);
  command->add_flag("--full", flags->full, "Show long arrays and strings whole");
  command->callback([flags, &exit_code] {
    const auto report = inspect(*flags);
    if (!report) {
      fmt::print(stderr, "tempo9 inspect: {}\n", sanitize_utf8(report.error().message()));
      exit_code = kExitFailure;
      return;
    }
    fmt::print("{}\n", report->dump(2, ' ', false, Json::error_handler_t::replace));
  });
}

}  // namespace tempo9::cli
