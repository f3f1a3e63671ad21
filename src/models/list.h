// The loaders of all architectures, each in the file of its name. list.cpp puts them in the list.
#pragma once

#include <memory>

#include "models/model.h"

namespace tempo9::models {

Result<Model> load_gemma3(std::shared_ptr<const gguf::File> file);
Result<Model> load_gemma4(std::shared_ptr<const gguf::File> file);
Result<Model> load_gpt_oss(std::shared_ptr<const gguf::File> file);
Result<Model> load_llama(std::shared_ptr<const gguf::File> file);
Result<Model> load_mistral3(std::shared_ptr<const gguf::File> file);
Result<Model> load_qwen2(std::shared_ptr<const gguf::File> file);
Result<Model> load_qwen2vl(std::shared_ptr<const gguf::File> file);
Result<Model> load_qwen3(std::shared_ptr<const gguf::File> file);
Result<Model> load_qwen35(std::shared_ptr<const gguf::File> file);
Result<Model> load_qwen35moe(std::shared_ptr<const gguf::File> file);
Result<Model> load_qwen3moe(std::shared_ptr<const gguf::File> file);
Result<Model> load_qwen3vl(std::shared_ptr<const gguf::File> file);
Result<Model> load_qwen3vlmoe(std::shared_ptr<const gguf::File> file);

}  // namespace tempo9::models
