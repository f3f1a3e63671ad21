// make_model SHAPE TYPE OUT.gguf [--layers N] [--tokenizer FILE.gguf]: a model of a real shape with random weights, for
// speed measurements where no real file is at hand. Text of it is noise; sizes, types and layout are the real thing.
//
// TYPE: q8_0, q4_0, or q4_k_m: as llama.cpp mixes them, Q6_K in the output, in half of the layers' ffn_down and attn_v,
// Q4_K elsewhere. Weights are normal with a deviation of 0.02, encoded once for a pool of blocks which every tensor is
// filled from at another offset. --tokenizer takes the vocabulary of another file, and its size; without it the file
// has none, which is enough for `tempo9 bench` and llama-bench.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "gguf/writer.h"
#include "quant/quant.h"

namespace tempo9 {
namespace {

using tensor::DType;

struct Shape {
  std::string_view name;
  std::string_view architecture;
  uint32_t n_layers;
  uint32_t n_embd;
  uint32_t n_heads;
  uint32_t n_kv_heads;
  uint32_t head_dim;
  uint32_t n_ff;  // of one expert, if there are experts
  uint32_t n_vocab;
  bool tied;
  float rope_base;
  uint32_t n_experts = 0;
  uint32_t n_used = 0;
  uint32_t n_deepstack = 0;  // of models that look at images: layers that read more of their rows
};

// The sizes that the models' publishers give.
constexpr Shape kShapes[] = {
    {"qwen3-0.6b", "qwen3", 28, 1024, 16, 8, 128, 3072, 151936, true, 1e6f},
    {"qwen3-4b", "qwen3", 36, 2560, 32, 8, 128, 9728, 151936, true, 1e6f},
    {"llama-3.2-1b", "llama", 16, 2048, 32, 8, 64, 8192, 128256, true, 5e5f},
    {"qwen3-vl-2b", "qwen3vl", 28, 2048, 16, 8, 128, 6144, 151936, true, 5e6f, 0, 0, 3},
    {"qwen3-30b-a3b", "qwen3moe", 48, 2048, 32, 4, 128, 768, 151936, false, 1e6f, 128, 8},
};

struct Types {
  std::string_view name;
  uint32_t file_type;  // general.file_type
  DType most;
  DType better;  // output, and half of ffn_down and attn_v
};
constexpr Types kTypes[] = {
    {"q8_0", 7, DType::kQ8_0, DType::kQ8_0},
    {"q4_0", 2, DType::kQ4_0, DType::kQ4_0},
    {"q4_k_m", 15, DType::kQ4_K, DType::kQ6_K},
};

template <class T>
const T* find_named(std::span<const T> list, std::string_view name) {
  for (const T& entry : list) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

class Maker {
 public:
  Maker(const Shape& shape, const Types& types) : shape_(shape), types_(types) {}

  void add_metadata() {
    const auto arch = [&](std::string_view key) { return fmt::format("{}.{}", shape_.architecture, key); };
    add("general.architecture", std::string(shape_.architecture));
    add("general.name", fmt::format("random weights, shape of {}", shape_.name));
    add("general.file_type", types_.file_type);
    add(arch("block_count"), shape_.n_layers);
    add(arch("context_length"), uint32_t{131072});
    add(arch("embedding_length"), shape_.n_embd);
    add(arch("feed_forward_length"), shape_.n_ff);
    add(arch("attention.head_count"), shape_.n_heads);
    add(arch("attention.head_count_kv"), shape_.n_kv_heads);
    add(arch("attention.key_length"), shape_.head_dim);
    add(arch("attention.value_length"), shape_.head_dim);
    add(arch("attention.layer_norm_rms_epsilon"), 1e-6f);
    add(arch("rope.freq_base"), shape_.rope_base);
    add(arch("rope.dimension_count"), shape_.head_dim);
    add(arch("vocab_size"), shape_.n_vocab);
    if (shape_.n_deepstack > 0) {
      writer_.add(arch("rope.dimension_sections"), gguf::Array(std::vector<int32_t>{24, 20, 20, 0}));
      add(arch("n_deepstack_layers"), shape_.n_deepstack);
    }
    if (shape_.n_experts > 0) {
      add(arch("expert_count"), shape_.n_experts);
      add(arch("expert_used_count"), shape_.n_used);
      add(arch("expert_feed_forward_length"), shape_.n_ff);
    }
  }

  void copy_tokenizer(const gguf::File& file) {
    for (const auto& [key, value] : file.metadata().entries()) {
      if (key.starts_with("tokenizer.")) writer_.add(key, value);
    }
  }
  void add_no_tokenizer() { add("tokenizer.ggml.model", std::string("no_vocab")); }

  void add_tensors() {
    const int64_t d = shape_.n_embd;
    const int64_t q = int64_t{shape_.n_heads} * shape_.head_dim;
    const int64_t kv = int64_t{shape_.n_kv_heads} * shape_.head_dim;
    matrix("token_embd.weight", shape_.tied ? types_.better : types_.most, {d, shape_.n_vocab});
    for (uint32_t i = 0; i < shape_.n_layers; ++i) {
      const std::string blk = fmt::format("blk.{}.", i);
      const DType better = gets_more_bits(i) ? types_.better : types_.most;
      vector(blk + "attn_norm.weight", d);
      matrix(blk + "attn_q.weight", types_.most, {d, q});
      matrix(blk + "attn_k.weight", types_.most, {d, kv});
      matrix(blk + "attn_v.weight", better, {d, kv});
      matrix(blk + "attn_output.weight", types_.most, {q, d});
      if (shape_.architecture.starts_with("qwen3")) {
        vector(blk + "attn_q_norm.weight", shape_.head_dim);
        vector(blk + "attn_k_norm.weight", shape_.head_dim);
      }
      vector(blk + "ffn_norm.weight", d);
      add_feed_forward(blk, better);
    }
    vector("output_norm.weight", d);
    if (!shape_.tied) matrix("output.weight", types_.better, {d, shape_.n_vocab});
  }

  Result<void> write(const std::string& path) const { return writer_.write(path); }

 private:
  template <class T>
  void add(std::string key, T value) {
    writer_.add(std::move(key), gguf::Scalar(std::move(value)));
  }

  // The first and last eighth of the layers, and every third between.
  bool gets_more_bits(uint32_t layer) const {
    const uint32_t eighth = shape_.n_layers / 8;
    return layer < eighth || layer >= 7 * shape_.n_layers / 8 || (layer - eighth) % 3 == 2;
  }

  void add_feed_forward(const std::string& blk, DType better) {
    const int64_t d = shape_.n_embd, ff = shape_.n_ff, experts = shape_.n_experts;
    if (experts == 0) {
      matrix(blk + "ffn_gate.weight", types_.most, {d, ff});
      matrix(blk + "ffn_up.weight", types_.most, {d, ff});
      matrix(blk + "ffn_down.weight", better, {ff, d});
      return;
    }
    matrix(blk + "ffn_gate_inp.weight", DType::kF32, {d, experts});
    matrix(blk + "ffn_gate_exps.weight", types_.most, {d, ff, experts});
    matrix(blk + "ffn_up_exps.weight", types_.most, {d, ff, experts});
    matrix(blk + "ffn_down_exps.weight", better, {ff, d, experts});
  }

  void vector(std::string name, int64_t n) {
    const std::vector<float> ones(static_cast<size_t>(n), 1.0f);
    std::vector<std::byte> bytes(ones.size() * sizeof(float));
    std::memcpy(bytes.data(), ones.data(), bytes.size());
    writer_.add_tensor(std::move(name), DType::kF32, {n}, std::move(bytes));
  }

  void matrix(std::string name, DType dtype, std::vector<int64_t> ne) {
    size_t n_bytes = tensor::row_bytes(dtype, ne[0]);
    for (size_t i = 1; i < ne.size(); ++i) n_bytes *= static_cast<size_t>(ne[i]);
    const std::vector<std::byte>& pool = pool_of(dtype);
    const auto block_bytes = static_cast<size_t>(tensor::dtype_info(dtype).block_bytes);
    std::vector<std::byte> bytes(n_bytes);
    for (size_t done = 0; done < n_bytes;) {
      const size_t from = random_() % (pool.size() / block_bytes) * block_bytes;
      const size_t n = std::min(n_bytes - done, pool.size() - from);
      std::memcpy(bytes.data() + done, pool.data() + from, n);
      done += n;
    }
    writer_.add_tensor(std::move(name), dtype, std::move(ne), std::move(bytes));
  }

  const std::vector<std::byte>& pool_of(DType dtype) {
    std::vector<std::byte>& pool = pools_[dtype];
    if (!pool.empty()) return pool;
    constexpr int64_t kElements = 1 << 20;
    std::normal_distribution<float> normal(0.0f, 0.02f);
    std::vector<float> values(kElements);
    for (float& value : values) value = normal(random_);
    pool.resize(tensor::row_bytes(dtype, kElements));
    quant::find_type(dtype)->encode(values.data(), pool.data(), kElements);
    return pool;
  }

  const Shape shape_;
  const Types types_;
  gguf::Writer writer_;
  std::map<DType, std::vector<std::byte>> pools_;
  std::mt19937_64 random_{1};
};

struct Arguments {
  Shape shape;
  Types types;
  std::string path;
  std::string tokenizer;  // may be empty
};

std::optional<Arguments> parse(std::span<char* const> words) {
  if (words.size() < 3 || words.size() % 2 == 0) return std::nullopt;
  const Shape* shape = find_named<Shape>(kShapes, words[0]);
  const Types* types = find_named<Types>(kTypes, words[1]);
  if (shape == nullptr || types == nullptr) return std::nullopt;
  Arguments arguments{.shape = *shape, .types = *types, .path = words[2], .tokenizer = {}};
  for (size_t i = 3; i < words.size(); i += 2) {
    const std::string_view flag = words[i];
    if (flag == "--layers") {
      arguments.shape.n_layers = static_cast<uint32_t>(std::strtoul(words[i + 1], nullptr, 10));
    } else if (flag == "--tokenizer") {
      arguments.tokenizer = words[i + 1];
    } else {
      return std::nullopt;
    }
  }
  return arguments;
}

Result<void> make(Arguments arguments) {
  std::shared_ptr<const gguf::File> vocabulary;
  if (!arguments.tokenizer.empty()) {
    T9_TRY(file, gguf::File::open(arguments.tokenizer));
    vocabulary = std::move(file);
    T9_TRY(tokens, vocabulary->metadata().read_strings("tokenizer.ggml.tokens"));
    arguments.shape.n_vocab = static_cast<uint32_t>(tokens.size());
  }
  Maker maker(arguments.shape, arguments.types);
  maker.add_metadata();
  if (vocabulary) {
    maker.copy_tokenizer(*vocabulary);
  } else {
    maker.add_no_tokenizer();
  }
  maker.add_tensors();
  return maker.write(arguments.path);
}

int usage() {
  std::string shapes, types;
  for (const Shape& shape : kShapes) shapes += fmt::format(" {}", shape.name);
  for (const Types& type : kTypes) types += fmt::format(" {}", type.name);
  fmt::print(stderr, "make_model SHAPE TYPE OUT.gguf [--layers N] [--tokenizer FILE.gguf]\nshapes:{}\ntypes:{}\n",
             shapes, types);
  return 2;
}

}  // namespace
}  // namespace tempo9

int main(int argc, char** argv) {
  const auto arguments = tempo9::parse({argv + 1, static_cast<size_t>(argc > 0 ? argc - 1 : 0)});
  if (!arguments) return tempo9::usage();
  const auto made = tempo9::make(*arguments);
  if (made) return 0;
  fmt::print(stderr, "make_model: {}\n", made.error().message());
  return 1;
}
