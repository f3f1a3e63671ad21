// The chat template engine: a bounded subset of Jinja2 with the settings Hugging Face uses (trim_blocks,
// lstrip_blocks). Reference: spec tool-calling section 11.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/message.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::chat {

// Templates come out of model files, which are untrusted: every one of these is a kInvalidInput error, not a hang.
struct TemplateLimits {
  size_t source_bytes = 1 << 20;
  size_t output_bytes = 64 << 20;
  size_t memory_bytes = 512 << 20;  // values alive at one time, the variables included
  int64_t steps = 20'000'000;       // statements and expressions evaluated
  int depth = 200;                  // nesting of expressions, blocks and macro calls
};

// Prompt text, and which bytes of it the template itself wrote. Only those may become control tokens; message content,
// and text whose origin a filter has lost, may not.
struct Rendered {
  std::string text;
  std::vector<tokenizer::ByteRange> trusted;  // ascending, disjoint, adjacent ranges joined
};

struct RenderOptions {
  // Names whose string values count as template text. "messages[].role" is that field of each element.
  std::vector<std::string> trusted_variables = {"bos_token", "eos_token"};
  // For strftime_now.
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
  TemplateLimits limits;
};

// A parsed template. Immutable; any thread may render.
class Template {
 public:
  // Errors: kInvalidInput with row and column; kUnsupported naming the construct, row and column.
  static Result<Template> parse(std::string_view source, const TemplateLimits& limits = {});

  // `variables` is an object. Errors: kInvalidInput, with reason "template_error" and the message given when the
  // template calls raise_exception.
  Result<Rendered> render(const Json& variables, const RenderOptions& options = {}) const;

  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

 private:
  struct Impl;
  explicit Template(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tempo9::chat
