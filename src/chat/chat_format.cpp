#include "chat/chat_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "chat/history.h"
#include "chat/known_templates.h"

namespace tempo9::chat {
namespace {

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";
constexpr std::string_view kToolTemplateName = "tool_use";

// Empty when absent, or not a string.
std::string find_text(const gguf::Metadata& metadata, std::string_view key) {
  auto text = metadata.find_string(key);
  return text && *text ? **std::move(text) : std::string();
}

// The only named template of a file that has no default one; empty when there are none or several.
std::string only_named_template(const gguf::Metadata& metadata) {
  const std::string prefix = std::string(kTemplateKey) + ".";
  std::string found;
  for (auto it = metadata.entries().lower_bound(prefix); it != metadata.entries().end(); ++it) {
    if (!it->first.starts_with(prefix)) break;
    if (!found.empty()) return {};
    found = find_text(metadata, it->first);
  }
  return found;
}

std::string token_text(const tokenizer::Tokenizer& tokenizer, std::optional<int32_t> id) {
  return id ? std::string(tokenizer.token_text(*id)) : std::string();
}

bool mentions(std::string_view source, std::string_view marker) {
  return source.find(marker) != std::string_view::npos;
}

bool has_token(const tokenizer::Tokenizer& tokenizer, std::string_view text) {
  for (int32_t id = 0; id < tokenizer.n_tokens(); ++id) {
    if (tokenizer.token_text(id) == text) return true;
  }
  return false;
}

std::string missing_template(const tokenizer::Tokenizer& tokenizer) {
  const KnownTemplate* known = fitting_template(tokenizer);
  const std::string hint =
      known ? fmt::format("; its vocabulary is one for --chat-template {}", known->name) : std::string();
  return fmt::format("the model file has no chat template (--chat-template FILE gives one{})", hint);
}

std::string_view role_name(Role role) {
  switch (role) {
    case Role::kSystem:
      return "system";
    case Role::kUser:
      return "user";
    case Role::kAssistant:
      return "assistant";
    case Role::kTool:
      return "tool";
  }
  return "user";
}

Json tool_calls_json(const std::vector<ToolCall>& calls) {
  Json list = Json::array();
  for (const ToolCall& call : calls) {
    list.push_back(
        {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return list;
}

Json message_json(const Message& message, bool takes_plain_text) {
  const bool is_typed = !takes_plain_text && message.parts.is_array();
  Json json = {{"role", role_name(message.role)}, {"content", is_typed ? message.parts : Json(message.content)}};
  if (!message.reasoning.empty()) {
    // Each family reads its own name for it.
    for (const char* key : {"reasoning_content", "reasoning", "thinking"}) json[key] = message.reasoning;
  }
  if (!message.tool_calls.empty()) json["tool_calls"] = tool_calls_json(message.tool_calls);
  if (message.role == Role::kTool) json["tool_call_id"] = message.tool_call_id;
  if (!message.name.empty()) json["name"] = message.name;
  return json;
}

// Many templates take one system message, at the beginning; clients send several.
Json messages_json(const std::vector<Message>& messages, bool takes_plain_text) {
  Json list = Json::array();
  size_t n_system = 0;
  while (n_system < messages.size() && messages[n_system].role == Role::kSystem) ++n_system;
  if (n_system > 0) {
    Message merged = messages[0];
    for (size_t i = 1; i < n_system; ++i) merged.content += "\n\n" + messages[i].content;
    if (n_system > 1) merged.parts = nullptr;
    list.push_back(message_json(merged, takes_plain_text));
  }
  for (size_t i = n_system; i < messages.size(); ++i) list.push_back(message_json(messages[i], takes_plain_text));
  return list;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

// Whether the template itself wrote some of the bytes.
bool is_of_template(const Rendered& rendered, size_t begin, size_t end) {
  return std::ranges::any_of(rendered.trusted,
                             [&](const auto& range) { return range.begin < end && begin < range.end; });
}

// Without what follows the last message's text. The template may have taken white space off its ends.
Result<Rendered> cut_behind(Rendered rendered, const Message& last) {
  const std::string_view text = trimmed(last.content);
  if (text.empty()) return fail(ErrorCode::kInvalidInput, "The message to continue has no text.");
  size_t begin = rendered.text.rfind(text);
  while (begin != std::string::npos && begin > 0 && is_of_template(rendered, begin, begin + text.size())) {
    begin = rendered.text.rfind(text, begin - 1);
  }
  if (begin == std::string::npos || is_of_template(rendered, begin, begin + text.size())) {
    return fail(Error(ErrorCode::kUnsupported, "The chat template does not show the text of the message to continue.")
                    .with_reason("template_error"));
  }
  const size_t end = begin + text.size();
  rendered.text.resize(end);
  std::erase_if(rendered.trusted, [&](const auto& range) { return range.begin >= end; });
  return rendered;
}

}  // namespace

ChatFormat ChatFormat::create(const gguf::Metadata& metadata, const tokenizer::Tokenizer& tokenizer) {
  std::string source = find_text(metadata, kTemplateKey);
  if (source.empty()) source = only_named_template(metadata);
  ChatFormat format =
      from_source(source, token_text(tokenizer, tokenizer.bos()), token_text(tokenizer, tokenizer.eos()));
  if (source.empty()) format.default_ = {.problem = missing_template(tokenizer)};
  format.has_reasoning_ = format.has_reasoning_ || has_token(tokenizer, format.dialect_->reasoning_open);
  const std::string tool_source = find_text(metadata, fmt::format("{}.{}", kTemplateKey, kToolTemplateName));
  if (!tool_source.empty()) {
    format.with_tools_ = parse(tool_source);
    format.dialect_ = &tools::choose_dialect(tool_source);
    format.has_reasoning_ = format.has_reasoning_ || mentions(tool_source, format.dialect_->reasoning_open);
    format.probe();
  }
  return format;
}

ChatFormat ChatFormat::from_source(std::string_view source, std::string bos_token, std::string eos_token) {
  ChatFormat format;
  format.default_ = parse(source);
  format.dialect_ = &tools::choose_dialect(source);
  format.has_reasoning_ = mentions(source, format.dialect_->reasoning_open);
  format.bos_token_ = std::move(bos_token);
  format.eos_token_ = std::move(eos_token);
  format.probe();
  return format;
}

const ChatFormat::Source& ChatFormat::source_for(const Conversation& conversation) const {
  const bool has_tool_template = with_tools_.parsed || !with_tools_.problem.empty();
  return !conversation.tools.empty() && has_tool_template ? with_tools_ : default_;
}

void ChatFormat::probe() {
  const Source& source = with_tools_.parsed ? with_tools_ : default_;
  const auto render = [&](const Json& given) -> std::optional<std::string> {
    Json variables = given;
    variables["add_generation_prompt"] = true;
    variables["bos_token"] = bos_token_;
    variables["eos_token"] = eos_token_;
    auto rendered = render_with(source, variables, {});
    if (!rendered) return std::nullopt;
    return std::move(rendered->text);
  };
  traits_ = probe_template(render);
  can_think_ = source.mentions_reasoning || source.efforts != Efforts::kNone || switches_thinking(render);
  // gpt-oss shows one call of a message, whatever there are.
  if (dialect_->name == "harmony") traits_.takes_parallel_calls = false;
}

ChatFormat::Source ChatFormat::parse(std::string_view source) {
  auto parsed = Template::parse(source);
  if (!parsed) return {.problem = "the chat template does not parse: " + parsed.error().message()};
  Efforts efforts = Efforts::kNone;
  if (source.find("reasoning_effort") != std::string_view::npos) {
    efforts = source.find("xhigh") != std::string_view::npos ? Efforts::kToXhigh : Efforts::kToHigh;
  }
  const auto mentions = [&](std::string_view mark) { return source.find(mark) != std::string_view::npos; };
  return {.parsed = std::make_shared<const Template>(*std::move(parsed)),
          .problem = "",
          .efforts = efforts,
          .mentions_reasoning = mentions("<think>") || mentions("[THINK]")};
}

// The template's own level; some raise for any other word. Thinking cannot be switched off by it.
std::string_view ChatFormat::effort_level(Efforts efforts, std::string_view effort) {
  if (effort == "none" || effort == "minimal" || effort == "low") return "low";
  if (effort == "medium") return "medium";
  return efforts == Efforts::kToXhigh ? "xhigh" : "high";
}

Result<Rendered> ChatFormat::render_with(const Source& source, const Json& variables,
                                         const RenderOptions& options) const {
  if (!source.parsed) return fail(Error(ErrorCode::kUnsupported, source.problem).with_reason("template_error"));
  return source.parsed->render(variables, options);
}

Result<Rendered> ChatFormat::render(const Conversation& conversation, std::chrono::system_clock::time_point now) const {
  RenderOptions options;
  options.now = now;
  // A template may write '<|' + message.role + '|>'. The role is one of four words, whoever sent the message.
  options.trusted_variables.emplace_back("messages[].role");
  const Source& source = source_for(conversation);
  const Conversation adapted = adapt_conversation(conversation, traits_);
  Json variables = template_variables(adapted, bos_token_, eos_token_, traits_.takes_plain_text);
  const bool has_effort = !conversation.reasoning_effort.empty() && !variables.contains("reasoning_effort");
  if (has_effort && source.efforts != Efforts::kNone) {
    variables["reasoning_effort"] = effort_level(source.efforts, conversation.reasoning_effort);
  }
  if (!conversation.continues_last) return render_with(source, variables, options);
  variables["add_generation_prompt"] = false;
  T9_TRY(rendered, render_with(source, variables, options));
  return cut_behind(std::move(rendered), adapted.messages.back());
}

Result<Rendered> ChatFormat::render_raw(const Json& variables, std::chrono::system_clock::time_point now) const {
  RenderOptions options;
  options.now = now;
  return render_with(default_, variables, options);
}

Json template_variables(const Conversation& conversation, std::string_view bos_token, std::string_view eos_token,
                        bool takes_plain_text) {
  Json variables = conversation.template_kwargs.is_object() ? conversation.template_kwargs : Json::object();
  variables["messages"] = messages_json(conversation.messages, takes_plain_text);
  variables["tools"] = conversation.tools.empty() ? Json() : Json(conversation.tools);
  variables["add_generation_prompt"] = conversation.add_generation_prompt;
  variables["bos_token"] = bos_token;
  variables["eos_token"] = eos_token;
  return variables;
}

}  // namespace tempo9::chat
