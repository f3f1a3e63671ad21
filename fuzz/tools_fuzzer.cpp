// The tool dialects on any text: the first byte chooses the dialect, the second how the request is and how the text
// ends. Cuts must not matter, and the events of calls must come in order. With the dialect's number at its end the text
// is typed instead, by a schema that it brings along.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "chat/json_text.h"
#include "chat/tools/dialect.h"
#include "chat/tools/typing.h"

using namespace tempo9;
using namespace tempo9::chat;
using namespace tempo9::chat::tools;

namespace {

std::shared_ptr<const ToolSet> fuzz_tools() {
  const Json tools = Json::parse(R"([{"type":"function","function":{"name":"f","parameters":{"type":"object",
      "properties":{"s":{"type":"string"},"i":{"type":"integer"},"e":{"enum":["a",1,null]},"o":{"type":"object"}}}}},
      {"type":"function","function":{"name":"python","parameters":{"properties":{"code":{"type":"string"}}}}}])");
  return std::make_shared<ToolSet>(tools.get<std::vector<Json>>());
}

// The events in a form in which cuts do not show; stops the fuzzer when they are out of order.
class Joined {
 public:
  void add(const std::vector<AnswerEvent>& events) {
    for (const AnswerEvent& event : events) add(event);
  }
  bool operator==(const Joined&) const = default;

 private:
  void add(const AnswerEvent& event) {
    using Kind = AnswerEvent::Kind;
    if (event.kind == Kind::kReasoning) reasoning_ += event.text;
    if (event.kind == Kind::kContent) content_ += event.text;
    if (event.kind == Kind::kReasoning || event.kind == Kind::kContent) {
      T9_CHECK(!in_call_);
      return;
    }
    T9_CHECK(in_call_ == (event.kind != Kind::kCallBegin));
    if (event.kind == Kind::kCallBegin) calls_.push_back(event.text + "\n");
    T9_CHECK(static_cast<size_t>(event.call) + 1 == calls_.size());
    if (event.kind == Kind::kCallArguments) calls_.back() += event.text;
    if (event.kind == Kind::kCallEnd) calls_.back() += event.is_complete ? "" : "\n(incomplete)";
    in_call_ = event.kind != Kind::kCallEnd;
  }

  std::string reasoning_;
  std::string content_;
  std::vector<std::string> calls_;
  bool in_call_ = false;
};

Joined parse(const Dialect& dialect, const ParserOptions& options, std::string_view text, size_t chunk, EndReason end) {
  AnswerParser parser(dialect, options);
  Joined joined;
  for (size_t at = 0; at < text.size(); at += chunk) joined.add(parser.feed(text.substr(at, chunk)));
  joined.add(parser.finish(end));
  return joined;
}

void type_by_own_schema(const std::string& input) {
  const size_t split = input.find('\0');
  if (split == std::string::npos) return;
  auto schema = parse_json_text(input.substr(0, split));
  if (!schema || !schema->is_object()) return;
  const Tool tool("t", *std::move(schema));
  const auto allowed = tool.find_parameter("v");
  const std::string json = type_raw_text(input.substr(split + 1), allowed ? &*allowed : nullptr);
  T9_CHECK(!json.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto tools = fuzz_tools();
  if (size < 2) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto dialects = all_dialects();
  const size_t which = data[0] % (dialects.size() + 1);
  if (which == dialects.size()) {
    type_by_own_schema(text);
    return 0;
  }
  const ParserOptions options{.tools = data[1] & 1 ? nullptr : tools,
                              .start = data[1] & 2 ? Start::kInReasoning : Start::kMaybeReasoning,
                              .parallel_calls = !(data[1] & 4),
                              .content_is_json = (data[1] & 16) != 0};
  const EndReason end = data[1] & 8 ? EndReason::kLength : EndReason::kStop;
  const Joined whole = parse(*dialects[which], options, text, text.size() + 1, end);
  T9_CHECK(parse(*dialects[which], options, text, 1, end) == whole);
  T9_CHECK(parse(*dialects[which], options, text, 5, end) == whole);
  return 0;
}
