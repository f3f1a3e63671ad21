#include "chat/template/template.h"

#include "chat/template/ast.h"
#include "chat/template/context.h"
#include "chat/template/interpreter.h"
#include "chat/template/parser.h"

namespace tempo9::chat {

struct Template::Impl {
  Body body;
};

Result<Template> Template::parse(std::string_view source, const TemplateLimits& limits) {
  T9_TRY(body, parse_template(source, limits));
  return Template(std::make_unique<Impl>(Impl{std::move(body)}));
}

Result<Rendered> Template::render(const Json& variables, const RenderOptions& options) const {
  if (!variables.is_object()) return fail(ErrorCode::kInvalidInput, "the template's variables must be an object");
  Context context(options.limits, options.now);
  Interpreter interpreter(context, options.limits.depth);
  T9_TRY(text, interpreter.run(impl_->body, variables, options.trusted_variables));
  return Rendered{std::move(text.bytes), std::move(text.trusted)};
}

Template::Template(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

}  // namespace tempo9::chat
