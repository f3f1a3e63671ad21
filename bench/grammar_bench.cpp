// What constrained output costs: compiling tool sets, by the family that writes the calls, and the mask of a token.
//   grammar_bench VOCABULARY.gguf
// Tool sets: those of mcp_tools.json beside this file, singly and together, fifty tools made of them, and fifty tools
// of twenty properties with limits in the thousands and a large enumeration. Masks: of every token of a text with
// calls, as the engine asks for them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "engine/constraint.h"
#include "gguf/file.h"
#include "server/answer_syntax.h"
#include "tokenizer/tokenizer.h"

namespace tempo9 {
namespace {

using grammar::AnswerRules;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void print_spread(const std::string& name, std::vector<double> ms) {
  std::ranges::sort(ms);
  double sum = 0;
  for (const double value : ms) sum += value;
  const auto quantile = [&](double q) { return ms[static_cast<size_t>(q * static_cast<double>(ms.size() - 1))]; };
  fmt::print("{:44} n {:5}  mean {:8.3f}  p50 {:8.3f}  p99 {:8.3f}  max {:8.3f} ms\n", name, ms.size(),
             sum / static_cast<double>(ms.size()), quantile(0.5), quantile(0.99), ms.back());
}

std::vector<grammar::ToolSignature> signatures(const Json& functions) {
  std::vector<grammar::ToolSignature> tools;
  for (const Json& function : functions)
    tools.push_back({.name = function["name"], .parameters = function["parameters"]});
  return tools;
}

std::vector<grammar::ToolSignature> fifty_of(const std::vector<grammar::ToolSignature>& some) {
  std::vector<grammar::ToolSignature> tools;
  for (size_t i = 0; i < 50; ++i) {
    tools.push_back(some[i % some.size()]);
    tools.back().name += fmt::format("_{}", i);
  }
  return tools;
}

std::vector<grammar::ToolSignature> fifty_large() {
  std::vector<grammar::ToolSignature> tools;
  for (int i = 0; i < 50; ++i) {
    Json parameters = {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
    for (int p = 0; p < 20; ++p) {
      const std::string name = fmt::format("property_{}", p);
      Json& property = parameters["properties"][name];
      if (p % 4 == 0) property = {{"type", "string"}, {"maxLength", 2000 + 100 * p}};
      if (p % 4 == 1)
        property = {{"type", "array"}, {"items", {{"type", "string"}, {"maxLength", 10000}}}, {"maxItems", 500}};
      if (p % 4 == 2) property = {{"type", "integer"}, {"minimum", -1000 - i}, {"maximum", 100000 + i}};
      if (p == 3) {
        for (int value = 0; value < 500; ++value) property["enum"].push_back(fmt::format("tool_{}_value_{}", i, value));
      } else if (p % 4 == 3) {
        property = {{"type", "string"}, {"pattern", "^[a-z][a-z0-9_-]{0,62}$"}};
      }
      if (p % 3 == 0) parameters["required"].push_back(name);
    }
    tools.push_back({.name = fmt::format("large_tool_{}", i), .parameters = parameters});
  }
  return tools;
}

constexpr std::string_view kDialects[] = {"hermes-json", "qwen-xml", "gemma4", "harmony", "mistral-v13"};

std::shared_ptr<const grammar::Grammar> compile(std::string_view dialect, AnswerRules::Calls calls,
                                                const std::vector<grammar::ToolSignature>& tools) {
  auto grammar = grammar::compile_answer(server::answer_syntax(dialect),
                                         {.reasoning = AnswerRules::Reasoning::kMaybe, .calls = calls, .tools = tools});
  if (!grammar) fmt::print("{}\n", grammar.error().message());
  return grammar ? *grammar : nullptr;
}

void measure_compiling(const std::string& name, const std::vector<std::vector<grammar::ToolSignature>>& sets, int n) {
  for (const std::string_view dialect : kDialects) {
    std::vector<double> ms;
    for (int i = 0; i < n; ++i) {
      for (const auto& tools : sets) {
        const auto begin = Clock::now();
        if (!compile(dialect, AnswerRules::Calls::kRequired, tools)) return;
        ms.push_back(ms_since(begin));
      }
    }
    print_spread(fmt::format("compile {}, {}", name, dialect), std::move(ms));
  }
}

// --- masks

std::string source_text() {
  std::string text = "#include <vector>\n\n// Sums \"all\" that is < 3 && > 1.\n";
  for (int i = 0; i < 20; ++i) {
    text += fmt::format(
        "int sum_{}(const std::vector<int>& values) {{\n  int sum = {};\n  for (int v : values) {{\n"
        "    if (v < 3 && v > 1) sum += v; // \"yes\"\n  }}\n  return sum;\n}}\n",
        i, i);
  }
  return text;
}

std::string gemma_value(const Json& value) {
  if (value.is_string()) return "<|\"|>" + value.get<std::string>() + "<|\"|>";
  if (!value.is_structured()) return value.dump();
  std::string out;
  for (const auto& [key, element] : value.items()) {
    out += (out.empty() ? "" : ",") + (value.is_object() ? key + ":" : "") + gemma_value(element);
  }
  return value.is_object() ? "{" + out + "}" : "[" + out + "]";
}

std::string call_text(std::string_view dialect, const std::string& name, const Json& arguments) {
  if (dialect == "hermes-json") {
    return fmt::format("<tool_call>\n{{\"name\": \"{}\", \"arguments\": {}}}\n</tool_call>", name, arguments.dump());
  }
  if (dialect == "mistral-v13") return fmt::format("[TOOL_CALLS]{}[ARGS]{}", name, arguments.dump());
  if (dialect == "harmony") {
    return fmt::format("<|channel|>commentary to=functions.{} <|constrain|>json<|message|>{}", name, arguments.dump());
  }
  if (dialect == "gemma4") return fmt::format("<|tool_call>call:{}{}<tool_call|>", name, gemma_value(arguments));
  std::string out = "<tool_call>\n<function=" + name + ">\n";
  for (const auto& [key, value] : arguments.items()) {
    out += fmt::format("<parameter={}>\n{}\n</parameter>\n", key,
                       value.is_string() ? value.get<std::string>() : value.dump());
  }
  return out + "</function>\n</tool_call>";
}

struct Call {
  std::string name;
  Json arguments;  // in the order of the schema
};

std::vector<Call> calls() {
  const Json edit = {{"oldText", "sum -= v;"}, {"newText", "sum += v;"}};
  return {{"write_file", {{"path", "src/sum.cpp"}, {"content", source_text()}}},
          {"edit_file", {{"path", "src/sum.cpp"}, {"edits", Json::array({edit})}}},
          {"create_issue",
           {{"owner", "ada"},
            {"repo", "engine"},
            {"title", "The sum is wrong"},
            {"body", "It adds `2` only: 1 < 2 < 3."}}}};
}

void measure_masks(std::string_view dialect, AnswerRules::Calls mode, const tokenizer::Tokenizer& tokenizer,
                   const engine::GrammarTokens& tokens, const std::vector<grammar::ToolSignature>& tools) {
  const auto grammar = compile(dialect, mode, tools);
  std::vector<double> ms;
  for (const Call& call : calls()) {
    // Gemma 4's names come in their order.
    const Json arguments = dialect == "gemma4" ? Json(nlohmann::json(call.arguments)) : call.arguments;
    std::string text = call_text(dialect, call.name, arguments);
    if (mode == AnswerRules::Calls::kLazy) text = "I will write it down first, then call the tool.\n" + text;
    engine::ConstraintState state({.grammar = grammar, .allows_control = true}, tokens, {});
    const auto ids = tokenizer.encode(text, {.parse_special = false});
    for (const int32_t id : *ids) {
      const auto begin = Clock::now();
      const auto mask = state.allowed_tokens();
      const bool fits = mask && (*mask)->has(id) && state.accept(tokenizer.piece(id));
      ms.push_back(ms_since(begin));
      if (!fits) {
        fmt::print("{}: {} does not fit\n{}\n", dialect, tokenizer.piece(id), text);
        return;
      }
    }
  }
  print_spread(fmt::format("mask of a token, {}{}", dialect, mode == AnswerRules::Calls::kLazy ? ", lazily" : ""),
               std::move(ms));
}

int run(const char* vocabulary) {
  const auto file = gguf::File::open(vocabulary);
  if (!file) {
    fmt::print("{}\n", file.error().message());
    return 1;
  }
  const auto tokenizer = tokenizer::Tokenizer::create((*file)->metadata());
  if (!tokenizer) {
    fmt::print("{}\n", tokenizer.error().message());
    return 1;
  }
  std::ifstream in(T9_SOURCE_DIR "/bench/mcp_tools.json");
  const auto mcp = signatures(Json::parse(std::string(std::istreambuf_iterator<char>(in), {})));
  std::vector<std::vector<grammar::ToolSignature>> singles;
  for (const grammar::ToolSignature& tool : mcp) singles.push_back({tool});
  const auto begin = Clock::now();
  const engine::GrammarTokens tokens(**tokenizer);
  fmt::print("one of {} threads; {} tokens, their trie {:.1f} ms\n", std::thread::hardware_concurrency(),
             (*tokenizer)->n_tokens(), ms_since(begin));
  measure_compiling("one tool of a server", singles, 20);
  measure_compiling("16 tools of servers", {mcp}, 100);
  measure_compiling("50 tools of servers", {fifty_of(mcp)}, 100);
  measure_compiling("50 large tools", {fifty_large()}, 40);
  for (const std::string_view dialect : kDialects) {
    measure_masks(dialect, AnswerRules::Calls::kRequired, **tokenizer, tokens, mcp);
    measure_masks(dialect, AnswerRules::Calls::kLazy, **tokenizer, tokens, mcp);
  }
  return 0;
}

}  // namespace
}  // namespace tempo9

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print("usage: grammar_bench VOCABULARY.gguf\n");
    return 2;
  }
  return tempo9::run(argv[1]);
}
