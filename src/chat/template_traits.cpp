#include "chat/template_traits.h"

#include <initializer_list>
#include <string_view>

namespace tempo9::chat {
namespace {

// Words that no template has.
constexpr std::string_view kFirst = "zqxfirst";
constexpr std::string_view kSecond = "zqxsecond";
constexpr std::string_view kThird = "zqxthird";
constexpr std::string_view kArgument = "zqxargument";
constexpr std::string_view kLongId = "call_0123456789abcdefghijklmn";
constexpr std::string_view kShortId = "a1B2c3D4e";

Json message(std::string_view role, std::string_view content) { return {{"role", role}, {"content", content}}; }

Json call(std::string_view name, std::string_view argument, std::string_view id) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", {{"k", argument}}}}}};
}

Json assistant_with(Json calls) {
  Json json = message("assistant", "");
  json["tool_calls"] = std::move(calls);
  return json;
}

Json result(std::string_view content, std::string_view name, std::string_view id) {
  Json json = message("tool", content);
  json["tool_call_id"] = id;
  json["name"] = name;
  return json;
}

Json tool(std::string_view name) {
  const Json parameters = {{"type", "object"}, {"properties", {{"k", {{"type", "string"}, {"description", "d"}}}}}};
  return {{"type", "function"}, {"function", {{"name", name}, {"description", "d"}, {"parameters", parameters}}}};
}

class Probe {
 public:
  explicit Probe(const RenderProbe& render) : render_(render) {}

  std::optional<std::string> prompt(Json messages, Json tools = nullptr) const {
    return render_({{"messages", std::move(messages)}, {"tools", std::move(tools)}});
  }

  // Whether the conversation is rendered, with all of `words` in it.
  bool shows(Json messages, std::initializer_list<std::string_view> words, Json tools = nullptr) const {
    const auto text = prompt(std::move(messages), std::move(tools));
    if (!text) return false;
    for (const std::string_view word : words) {
      if (text->find(word) == std::string::npos) return false;
    }
    return true;
  }

 private:
  const RenderProbe& render_;
};

void probe_messages(const Probe& probe, TemplateTraits& traits) {
  const Json user = message("user", "u");
  traits.takes_system = probe.shows(Json::array({message("system", kFirst), user}), {kFirst});
  // Some templates show the last system message only.
  const Json first = message(traits.takes_system ? "system" : "user", kThird);
  Json later = Json::array({first});
  if (traits.takes_system) later.push_back(user);
  later.push_back(message("assistant", "a"));
  later.push_back(message("system", kFirst));
  later.push_back(message("user", kSecond));
  traits.takes_later_system = probe.shows(std::move(later), {kFirst, kSecond, kThird});
  traits.takes_same_role_twice =
      probe.shows(Json::array({message("user", kFirst), message("user", kSecond)}), {kFirst, kSecond});
  traits.takes_no_user = probe.shows(Json::array({message("system", "s")}), {});
}

void probe_tools(const Probe& probe, TemplateTraits& traits) {
  const Json user = message("user", "u");
  const Json tools = Json::array({tool(kFirst), tool(kSecond)});
  const auto with_tools = probe.prompt(Json::array({user}), tools);
  traits.takes_tools = with_tools && with_tools != probe.prompt(Json::array({user}));
  const auto round = [&](std::string_view id) {
    return Json::array(
        {user, assistant_with(Json::array({call(kSecond, kArgument, id)})), result(kThird, kSecond, id)});
  };
  const auto shows_call = [&](std::string_view id) {
    return probe.shows(round(id), {kArgument}, tools) || probe.shows(round(id), {kArgument});
  };
  const bool takes_long_id = shows_call(kLongId);
  traits.takes_tool_calls = takes_long_id || shows_call(kShortId);
  traits.takes_any_call_id = takes_long_id || !traits.takes_tool_calls;
  const std::string_view id = takes_long_id ? kLongId : kShortId;
  traits.takes_tool_results = probe.shows(round(id), {kThird}, tools) || probe.shows(round(id), {kThird});
  Json all = assistant_with(Json::array({call(kSecond, kArgument, id)}));
  for (const char* key : {"content", "reasoning_content", "reasoning", "thinking"}) all[key] = "t";
  traits.takes_text_with_reasoning = !traits.takes_tool_calls || probe.shows(Json::array({user, all}), {kArgument});
  const std::string_view other_id = takes_long_id ? "call_abcdefghijklmn0123456789" : "e4D3c2B1a";
  const Json calls = Json::array({call(kFirst, "zqxone", id), call(kSecond, "zqxtwo", other_id)});
  const Json parallel =
      Json::array({user, assistant_with(calls), result("zqxthree", kFirst, id), result("zqxfour", kSecond, other_id)});
  traits.takes_parallel_calls = probe.shows(parallel, {"zqxone", "zqxtwo", "zqxthree", "zqxfour"}, tools);
}

}  // namespace

TemplateTraits probe_template(const RenderProbe& render) {
  const Probe probe(render);
  TemplateTraits traits;
  // A template that does not even take this wants something else than messages; there is nothing to adapt to.
  traits.takes_plain_text = probe.shows(Json::array({message("user", kFirst)}), {kFirst});
  if (!traits.takes_plain_text) return traits;
  probe_messages(probe, traits);
  probe_tools(probe, traits);
  return traits;
}

bool switches_thinking(const RenderProbe& render) {
  const auto with = [&](bool is_on) {
    return render({{"messages", Json::array({message("user", "u")})}, {"tools", nullptr}, {"enable_thinking", is_on}});
  };
  const auto on = with(true);
  const auto off = with(false);
  return on && off && on != off;
}

}  // namespace tempo9::chat
