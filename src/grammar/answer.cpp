#include "grammar/answer.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "grammar/automaton.h"
#include "grammar/free_text.h"

namespace tempo9::grammar {
namespace {

class AnswerWriter {
 public:
  AnswerWriter(const AnswerSyntax& syntax, const AnswerRules& rules)
      : syntax_(syntax),
        rules_(rules),
        compiler_(builder_, syntax.excluded_in_content),
        root_(builder_.add_rule()),
        end_(builder_.add_node()) {}

  Result<std::shared_ptr<const Grammar>> write() {
    builder_.add_return(end_);
    if (rules_.calls != AnswerRules::Calls::kNone) T9_TRY_VOID(add_calls());
    const NodeId start = builder_.start(root_);
    if (rules_.calls == AnswerRules::Calls::kLazy && !syntax_.header_end.empty()) {
      add_messages(start);
    } else {
      const NodeId answer = builder_.add_node();
      add_reasoning(start, answer);
      T9_TRY_VOID(add_rest(answer));
    }
    return Grammar::build(std::move(builder_), root_, take_notes());
  }

 private:
  using Calls = AnswerRules::Calls;

  // A tool's arguments, between what stands before and behind them in the automaton.
  struct Arguments {
    const ToolSignature* tool;
    NodeId begin;
  };

  // --- calls

  Result<void> add_calls() {
    if (rules_.tools.empty()) return fail(ErrorCode::kInvalidInput, "there is no tool to call");
    calls_begin_ = builder_.add_node();
    behind_calls_ = builder_.add_node();
    const NodeId behind_call = builder_.add_node();
    for (const ToolSignature& tool : rules_.tools) {
      arguments_.push_back({&tool, builder_.add_node()});
      T9_TRY(end, add_arguments(tool, arguments_.back().begin));
      builder_.add_free(builder_.add_literal(end, syntax_.calls.end), behind_call);
    }
    add_heads(calls_begin_, syntax_.calls.first, "");
    if (syntax_.calls.allows_several) add_heads(builder_.add_literal(behind_call, syntax_.calls.between), "", "");
    builder_.add_free(builder_.add_literal(behind_call, syntax_.calls.last), behind_calls_);
    if (rules_.calls != Calls::kLazy || !syntax_.calls.allows_several) end_calls();
    return {};
  }

  // Nothing but the text that closes them.
  void end_calls() {
    builder_.add_free(behind_calls_, end_);
    if (!syntax_.calls.closing.empty()) {
      builder_.add_free(builder_.add_literal(behind_calls_, syntax_.calls.closing), end_);
    }
  }

  Result<NodeId> add_arguments(const ToolSignature& tool, NodeId from) {
    const Written written = syntax_.calls.arguments;
    const CompileOptions options{.closed_objects = tool.is_strict};
    const std::string context = fmt::format("tool {}", sanitize_utf8(tool.name));
    const bool must_fit = rules_.calls == Calls::kRequired || tool.is_strict;
    if (!tool.is_free) {
      auto end = compiler_.add_schema(tool.parameters, options, context, written, from);
      if (end || must_fit) return end;
      notes_.push_back(end.error().message());
    }
    return compiler_.add_any_object(written, from);
  }

  // From `from` to the arguments of each tool: `first` and a head of a call, of which `seen` is there already.
  void add_heads(NodeId from, std::string_view first, std::string_view seen) {
    std::vector<std::string> texts;
    std::vector<NodeId> targets;
    for (const CallSyntax::Head& head : syntax_.calls.heads) {
      for (const Arguments& arguments : arguments_) {
        std::string text = fmt::format("{}{}{}{}", first, head.begin, arguments.tool->name, head.arguments_begin);
        if (text.starts_with(seen)) text.erase(0, seen.size());
        texts.push_back(std::move(text));
        targets.push_back(arguments.begin);
      }
    }
    const std::vector<NodeId> ends = builder_.add_literals(from, texts);
    for (size_t i = 0; i < ends.size(); ++i) builder_.add_free(ends[i], targets[i]);
  }

  // Where `marker` has been written: the rest of a call.
  NodeId call_behind(std::string_view marker) {
    const NodeId node = builder_.add_node();
    add_heads(node, syntax_.calls.first, marker);
    return node;
  }

  // --- reasoning

  void add_reasoning(NodeId start, NodeId answer) {
    const ReasoningSyntax& reasoning = syntax_.reasoning;
    if (rules_.reasoning != AnswerRules::Reasoning::kOpen) builder_.add_free(start, answer);
    if (rules_.reasoning == AnswerRules::Reasoning::kNone || reasoning.close.empty()) return;
    const NodeId inside = builder_.add_node();
    const NodeId closed = builder_.add_node();
    const NodeId again = builder_.add_literal(closed, reasoning.behind);
    builder_.add_free(again, answer);
    if (rules_.reasoning == AnswerRules::Reasoning::kOpen) {
      builder_.add_free(start, inside);
    } else {
      builder_.add_free(builder_.add_literal(start, reasoning.open), inside);
      if (reasoning.may_repeat) builder_.add_free(builder_.add_literal(again, reasoning.open), inside);
    }
    FreeText text{.ends = {{reasoning.close, closed}}};
    const CallSyntax& calls = syntax_.calls;
    if (rules_.calls != Calls::kNone && !calls.marker_in_reasoning.empty()) {
      text.ends.push_back({calls.marker, behind_marker_in_reasoning(inside)});
    }
    for (const std::string& excluded : reasoning.excluded) text.ends.push_back({excluded, {}});
    text.may_return = rules_.calls == Calls::kLazy;
    add_free_text(builder_, inside, text);
  }

  // A call, or talk of the marker: that goes on, after a blank at most, with what a call does not.
  NodeId behind_marker_in_reasoning(NodeId inside) {
    const CallSyntax& calls = syntax_.calls;
    const NodeId node = builder_.add_node();
    const std::string rest = calls.marker_in_reasoning.substr(calls.marker.size());
    builder_.add_free(builder_.add_literal(node, rest), call_behind(calls.marker_in_reasoning));
    if (rest.empty()) return node;
    for (const NodeId from : {node, builder_.add_literal(node, " ")}) {
      builder_.add_characters(from, '!', '<' - 1, inside);
      builder_.add_characters(from, '<' + 1, '{' - 1, inside);
      builder_.add_characters(from, '{' + 1, kLastCodePoint, inside);
      if (rules_.calls == Calls::kLazy) builder_.add_return(from);
    }
    return node;
  }

  // --- behind the reasoning

  Result<void> add_rest(NodeId answer) {
    if (rules_.calls == Calls::kLazy) {
      add_text_with_calls(answer);
      return {};
    }
    const NodeId rest = compiler_.json().white_space(answer);
    if (rules_.calls != Calls::kNone) {
      builder_.add_free(rest, calls_begin_);
      if (!is_marked()) builder_.add_free(builder_.add_literal(rest, syntax_.calls.marker), calls_begin_);
    }
    if (rules_.calls == Calls::kRequired) return {};
    NodeId content = rest;
    if (!syntax_.content_heads.empty()) {
      content = builder_.add_node();
      for (const NodeId end : builder_.add_literals(answer, syntax_.content_heads)) builder_.add_free(end, content);
    }
    T9_CHECK(rules_.content_schema.has_value());
    T9_TRY(end,
           compiler_.add_schema(*rules_.content_schema, rules_.content_options, "", Written::kJsonContent, content));
    builder_.add_free(end, end_);
    return {};
  }

  // Calls begin with their marker; else they may stand at the beginning of an answer without it.
  bool is_marked() const {
    const CallSyntax& calls = syntax_.calls;
    return !calls.marker.empty() && (calls.first + calls.heads.front().begin).starts_with(calls.marker);
  }

  // Text and calls in any order.
  void add_text_with_calls(NodeId from) {
    const std::string& marker = syntax_.calls.marker;
    FreeText text{.ends = {}, .may_return = true};
    if (!marker.empty()) text.ends.push_back({marker, call_behind(marker)});
    if (const std::string& bare = syntax_.calls.bare_marker; !bare.empty()) {
      text.ends.push_back({"\n" + bare, call_behind(syntax_.calls.first + syntax_.calls.heads.front().begin)});
      text.before = "\n";
    }
    for (const std::string& excluded : syntax_.calls.excluded) text.ends.push_back({excluded, {}});
    if (syntax_.calls.allows_several) add_free_text(builder_, behind_calls_, text);
    if (!is_marked()) {
      // What begins like a call is one.
      builder_.add_free(compiler_.json().white_space(from), calls_begin_);
      text.not_first = "{[";
    }
    add_free_text(builder_, from, text);
  }

  // Messages of any kind; those to a tool have its arguments as their body.
  void add_messages(NodeId from) {
    const NodeId header = builder_.add_node();
    builder_.add_free(from, header);
    const NodeId body = builder_.add_node();
    FreeText in_header{.ends = {{syntax_.header_end, body}}, .may_return = true};
    for (const Arguments& arguments : arguments_) {
      // Up to a character that ends the name: one may be the beginning of another.
      for (const std::string_view end : {" ", "<"}) {
        const NodeId addressed = builder_.add_node();
        in_header.ends.push_back({syntax_.address + arguments.tool->name + std::string(end), addressed});
        add_free_text(
            builder_, addressed,
            {.ends = {{syntax_.header_end, arguments.begin}, {syntax_.address, {}}}, .before = std::string(end)});
      }
    }
    add_free_text(builder_, header, in_header);
    FreeText in_body{.ends = {}, .may_return = true};
    for (const std::string& end : syntax_.body_ends) in_body.ends.push_back({end, header});
    add_free_text(builder_, body, in_body);
  }

  std::vector<std::string> take_notes() {
    std::vector<std::string> notes = compiler_.take_notes();
    notes.insert(notes.end(), notes_.begin(), notes_.end());
    return notes;
  }

  const AnswerSyntax& syntax_;
  const AnswerRules& rules_;
  AutomatonBuilder builder_;
  SchemaCompiler compiler_;
  RuleId root_;
  NodeId end_;
  std::vector<Arguments> arguments_;
  NodeId calls_begin_ = 0;
  NodeId behind_calls_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace

Result<std::shared_ptr<const Grammar>> compile_answer(const AnswerSyntax& syntax, const AnswerRules& rules) {
  return AnswerWriter(syntax, rules).write();
}

}  // namespace tempo9::grammar
