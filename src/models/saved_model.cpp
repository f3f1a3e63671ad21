#include "models/saved_model.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>
#include <string_view>

#include "base/byte_stream.h"
#include "graph/program_bytes.h"
#include "models/code_digest.h"
#include "models/tensors.h"

namespace tempo9::models {
namespace {

constexpr std::string_view kMagic = "T9GRAPH\n";
constexpr uint32_t kFormat = 3;

uint64_t checksum(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

// The vocabulary's lists are megabytes, and no program depends on more of them than their length.
bool is_vocabulary(std::string_view key) { return key.starts_with("tokenizer."); }

class MetadataWriter {
 public:
  explicit MetadataWriter(ByteWriter& out) : out_(out) {}

  void add(const std::string& key, const gguf::MetaValue& value) {
    out_.text(key);
    out_.number(static_cast<uint8_t>(value.index()));
    if (const auto* scalar = std::get_if<gguf::Scalar>(&value)) {
      out_.number(static_cast<uint8_t>(scalar->index()));
      std::visit([&](const auto& x) { element(x); }, *scalar);
      return;
    }
    const auto& array = std::get<gguf::Array>(value);
    out_.number(static_cast<uint8_t>(array.index()));
    std::visit(
        [&](const auto& elements) {
          out_.number(static_cast<uint64_t>(elements.size()));
          if (is_vocabulary(key)) return;
          for (const auto& x : elements) element(x);
        },
        array);
  }

 private:
  void element(const std::string& x) { out_.text(x); }
  void element(bool x) { out_.number(static_cast<uint8_t>(x)); }
  void element(Number auto x) { out_.number(x); }

  ByteWriter& out_;
};

// What a program is built from: the file's metadata, the names, types and shapes of its tensors, and the values of the
// tensors that were read while building. Size and time are there to tell apart what is cheap to tell apart.
uint64_t digest_of(const gguf::File& file, const std::vector<std::string>& read_tensors) {
  ByteWriter out;
  out.number(file.size_bytes());
  out.number(file.modified_ns());
  MetadataWriter metadata(out);
  for (const auto& [key, value] : file.metadata().entries()) metadata.add(key, value);
  for (const gguf::TensorInfo& info : file.tensors()) {
    out.text(info.name);
    out.number(static_cast<uint32_t>(info.dtype));
    for (const int64_t size : info.ne) out.number(size);
  }
  for (const std::string& name : read_tensors) {
    const gguf::TensorInfo* info = file.find_tensor(name);
    if (!info) continue;  // then the directory differs too
    const tensor::WeightView view = file.view(*info);
    out.number(checksum({view.data, view.size_bytes()}));
  }
  return checksum(out.data());
}

// The file's bytes of each of the program's weights.
Result<std::vector<tensor::WeightView>> bind_weights(const gguf::File& file, const tensor::Program& program) {
  std::vector<tensor::WeightView> views;
  for (const tensor::WeightSpec& weight : program.weights) {
    const gguf::TensorInfo* info = file.find_tensor(weight.name);
    if (!info || info->dtype != weight.dtype || info->ne[0] != weight.cols || info->ne[1] != weight.rows ||
        info->ne[2] != weight.depth || info->ne[3] != 1) {
      return fail(ErrorCode::kInvalidInput, fmt::format("tensor {} is not as saved", weight.name));
    }
    views.push_back(file.view(*info));
  }
  return views;
}

// The body between magic and checksum, after the checks of both.
Result<std::span<const std::byte>> check_frame(std::span<const std::byte> bytes) {
  if (!is_saved_model(bytes)) return fail(ErrorCode::kInvalidInput, "not a saved graph");
  constexpr size_t kChecksumBytes = sizeof(uint64_t);
  if (bytes.size() < kMagic.size() + kChecksumBytes) return fail(ErrorCode::kInvalidInput, "ends too early");
  const auto covered = bytes.first(bytes.size() - kChecksumBytes);
  uint64_t stored = 0;
  std::memcpy(&stored, bytes.data() + covered.size(), sizeof stored);
  if (stored != checksum(covered)) return fail(ErrorCode::kInvalidInput, "damaged: the checksum does not fit");
  return covered.subspan(kMagic.size());
}

void write_texts(ByteWriter& out, const std::vector<std::string>& texts) {
  out.number(static_cast<uint32_t>(texts.size()));
  for (const std::string& text : texts) out.text(text);
}

std::vector<std::string> read_texts(ByteReader& in) {
  std::vector<std::string> texts(in.count(sizeof(uint32_t)));
  for (std::string& text : texts) text = in.text();
  return texts;
}

// The model's own program makes all its rows from tokens; only the block that drafts is given some.
Result<void> check_main(const tensor::Program& program) {
  for (const tensor::Op& op : program.ops) {
    if (std::holds_alternative<tensor::Input>(op))
      return fail(ErrorCode::kInvalidInput, "a model that needs input rows");
  }
  if (program.hidden != tensor::kNone &&
      program.values[static_cast<size_t>(program.hidden)].rows != tensor::RowSet::kBatch) {
    return fail(ErrorCode::kInvalidInput, "a model with hidden states of some rows only");
  }
  return {};
}

void write_info(ByteWriter& out, const ModelInfo& info) {
  for (const int64_t x : {info.context_length, info.n_layers, info.n_embd, info.n_parameters}) out.number(x);
  out.number(static_cast<uint8_t>(info.sees_whole_images));
}

Result<void> read_info(ByteReader& in, ModelInfo& info) {
  for (int64_t* x : {&info.context_length, &info.n_layers, &info.n_embd, &info.n_parameters}) {
    *x = in.number<int64_t>();
    if (*x <= 0) return fail(ErrorCode::kInvalidInput, "a size below 1");
  }
  info.sees_whole_images = in.number<uint8_t>() != 0;
  if (info.context_length > INT32_MAX) return fail(ErrorCode::kInvalidInput, "a context beyond positions of 32 bits");
  return {};
}

void write_draft(ByteWriter& out, const std::optional<DraftModel>& draft) {
  out.number(static_cast<uint8_t>(draft.has_value()));
  if (draft) graph::write_program(draft->program, out);
}

// A draft block fits the model if it reads the width that the model's hidden state has, and its own has, in the rows
// that give logits, and tells apart the same tokens.
Result<void> check_draft(const tensor::Program& model, const tensor::Program& draft) {
  const auto cols = [](const tensor::Program& program, tensor::ValueId id) {
    return id == tensor::kNone ? 0 : program.values[static_cast<size_t>(id)].cols;
  };
  const int64_t width = cols(model, model.hidden);
  bool fits = width > 0 && cols(draft, draft.hidden) == width && draft.state_layers.empty() &&
              draft.values[static_cast<size_t>(draft.hidden)].rows == tensor::RowSet::kOutputs &&
              cols(draft, draft.logits) == cols(model, model.logits);
  for (const tensor::Op& op : draft.ops) {
    if (const auto* input = std::get_if<tensor::Input>(&op)) fits &= cols(draft, input->out) == width;
  }
  if (fits) return {};
  return fail(ErrorCode::kInvalidInput, "the block that drafts does not fit the model");
}

Result<std::optional<DraftModel>> read_draft(ByteReader& in, const gguf::File& file, const tensor::Program& model) {
  if (in.number<uint8_t>() == 0) return std::nullopt;
  T9_TRY(program, graph::read_program(in));
  T9_TRY_VOID(check_draft(model, program));
  T9_TRY(weights, bind_weights(file, program));
  return DraftModel{.program = std::move(program), .weights = std::move(weights)};
}

}  // namespace

bool is_saved_model(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

std::vector<std::byte> save_model(const Model& model) {
  // A new member does not compile here before it is saved below, or known to follow from the rest: file and weights do.
  [[maybe_unused]] const auto& [file, info, program, weights, draft, read_tensors, warnings] = model;
  ByteWriter out;
  for (const char c : kMagic) out.number(c);
  out.number(kFormat);
  out.text(kCodeDigest);
  write_texts(out, read_tensors);
  out.number(digest_of(*file, read_tensors));
  write_info(out, info);
  write_texts(out, warnings);
  graph::write_program(program, out);
  write_draft(out, draft);
  out.number(checksum(out.data()));
  return out.data();
}

Result<Model> restore_model(std::shared_ptr<const gguf::File> file, std::span<const std::byte> bytes) {
  T9_TRY(body, check_frame(bytes));
  ByteReader in(body);
  if (in.number<uint32_t>() != kFormat || in.text() != kCodeDigest) {
    return fail(ErrorCode::kInvalidInput, "made by another version of tempo9");
  }
  Model model;
  model.read_tensors = read_texts(in);
  const auto digest = in.number<uint64_t>();
  T9_TRY_VOID(in.status());
  if (digest != digest_of(*file, model.read_tensors)) {
    return fail(ErrorCode::kInvalidInput, "the model file has changed");
  }
  T9_TRY(names, read_names(*file));
  model.info = std::move(names);
  T9_TRY_VOID(read_info(in, model.info));
  model.warnings = read_texts(in);
  T9_TRY(program, graph::read_program(in));
  T9_TRY_VOID(check_main(program));
  T9_TRY(draft, read_draft(in, *file, program));
  T9_TRY_VOID(in.status());
  if (!in.is_at_end()) return fail(ErrorCode::kInvalidInput, "bytes after the end");
  T9_TRY(weights, bind_weights(*file, program));
  model.info.n_vocab = program.values[static_cast<size_t>(program.logits)].cols;
  model.file = std::move(file);
  model.program = std::move(program);
  model.weights = std::move(weights);
  model.draft = std::move(draft);
  return model;
}

}  // namespace tempo9::models
