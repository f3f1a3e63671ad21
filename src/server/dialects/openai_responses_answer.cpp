#include "server/dialects/openai_responses_answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ctime>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/json_text.h"
#include "server/dialects/custom_tool_input.h"
#include "server/dialects/openai.h"
#include "server/dialects/openai_responses.h"
#include "server/dialects/openai_responses_items.h"
#include "server/dialects/openai_responses_request.h"
#include "server/dialects/token_logprobs.h"
#include "server/ids.h"
#include "server/response_store.h"

namespace tempo9::server {

namespace {

using chat::tools::AnswerEvent;

std::string new_id(std::string_view prefix) { return std::string(prefix) + random_hex(32); }

// Of the prompt, what was read from the cache is a part; what is written to it costs nothing and is not counted.
Json usage_json(const AnswerUsage& usage) {
  const engine::Usage& tokens = usage.engine;
  return {{"input_tokens", tokens.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", tokens.cached_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", tokens.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", tokens.prompt_tokens + tokens.completion_tokens}};
}

std::string_view error_code(const Error& error) {
  if (error.overflow()) return "context_length_exceeded";
  return error.code() == ErrorCode::kOutOfCapacity ? "rate_limit_exceeded" : "server_error";
}

// The events of a stream, numbered as they come. A whole answer has none.
class EventLog {
 public:
  explicit EventLog(bool is_on) : is_on_(is_on) {}

  bool is_on() const { return is_on_; }
  // `fields`: what the event has besides its type and its number.
  void add(std::string_view type, const Json& fields) { add_text(type, dump_json(fields)); }
  // `fields` as JSON text, an object.
  void add_text(std::string_view type, std::string_view fields) {
    if (!is_on_) return;
    const std::string_view members = fields.substr(1);
    fmt::format_to(std::back_inserter(bytes_), "event: {0}\ndata: {{\"type\":\"{0}\",\"sequence_number\":{1}{2}{3}\n\n",
                   type, n_events_++, members == "}" ? "" : ",", members);
  }
  std::string take() { return std::exchange(bytes_, {}); }

 private:
  const bool is_on_;
  int64_t n_events_ = 0;
  std::string bytes_;
};

enum class ItemStatus : uint8_t { kInProgress, kCompleted, kIncomplete };

std::string_view name_of(ItemStatus status) {
  switch (status) {
    case ItemStatus::kInProgress:
      return "in_progress";
    case ItemStatus::kCompleted:
      return "completed";
    case ItemStatus::kIncomplete:
      break;
  }
  return "incomplete";
}

// What is the same for all items of an answer.
struct ItemForms {
  bool summarizes = false;
  bool seals_reasoning = false;
};

// An item of the output while it is being written: what it looks like, and the events between its `added` and its
// `done`. `where`: {"item_id","output_index"}.
class Item {
 public:
  virtual ~Item() = default;

  const std::string& id() const { return id_; }
  virtual Json json(ItemStatus status) const = 0;
  virtual void begin(const Json&, EventLog&) {}
  virtual void add(std::string_view text, const Json& where, EventLog& log) = 0;
  virtual void add_logprobs(Json) {}
  virtual void end(const Json& where, EventLog& log) = 0;

 protected:
  explicit Item(std::string_view prefix) : id_(new_id(prefix)) {}

 private:
  const std::string id_;
};

Json with(Json object, const Json& more) {
  object.update(more);
  return object;
}

class ReasoningItem : public Item {
 public:
  explicit ReasoningItem(ItemForms forms) : Item("rs_"), forms_(forms) {}

  Json json(ItemStatus status) const override {
    const bool is_done = status != ItemStatus::kInProgress;
    Json parts = Json::array();
    if (is_done) parts.push_back(part(text_));
    Json item = {{"id", id()}, {"type", "reasoning"}, {"summary", Json::array()}};
    if (!forms_.summarizes) item["content"] = Json::array();
    item[forms_.summarizes ? "summary" : "content"] = std::move(parts);
    if (is_done && forms_.seals_reasoning) item["encrypted_content"] = seal_reasoning(text_);
    item["status"] = name_of(status);
    return item;
  }

  void begin(const Json& where, EventLog& log) override {
    log.add(forms_.summarizes ? "response.reasoning_summary_part.added" : "response.content_part.added",
            with(place(where), {{"part", part("")}}));
  }
  void add(std::string_view text, const Json& where, EventLog& log) override {
    text_ += text;
    if (!log.is_on()) return;
    log.add(forms_.summarizes ? "response.reasoning_summary_text.delta" : "response.reasoning_text.delta",
            with(place(where), {{"delta", text}}));
  }
  void end(const Json& where, EventLog& log) override {
    if (!log.is_on()) return;
    log.add(forms_.summarizes ? "response.reasoning_summary_text.done" : "response.reasoning_text.done",
            with(place(where), {{"text", text_}}));
    log.add(forms_.summarizes ? "response.reasoning_summary_part.done" : "response.content_part.done",
            with(place(where), {{"part", part(text_)}}));
  }

 private:
  Json part(std::string_view text) const {
    return {{"type", forms_.summarizes ? "summary_text" : "reasoning_text"}, {"text", text}};
  }
  Json place(const Json& where) const {
    return with(where, {{forms_.summarizes ? "summary_index" : "content_index", 0}});
  }

  const ItemForms forms_;
  std::string text_;
};

class MessageItem : public Item {
 public:
  MessageItem() : Item("msg_") {}

  Json json(ItemStatus status) const override {
    Json content = Json::array();
    if (status != ItemStatus::kInProgress) content.push_back(part(text_, logprobs_));
    return {{"id", id()},
            {"type", "message"},
            {"role", "assistant"},
            {"status", name_of(status)},
            {"content", std::move(content)}};
  }

  void begin(const Json& where, EventLog& log) override {
    log.add("response.content_part.added", with(place(where), {{"part", part("", Json::array())}}));
  }
  void add(std::string_view text, const Json& where, EventLog& log) override {
    text_ += text;
    if (!log.is_on()) return;
    log.add("response.output_text.delta",
            with(place(where), {{"delta", text}, {"logprobs", std::exchange(delta_logprobs_, Json::array())}}));
  }
  // They go out with the text that is added next.
  void add_logprobs(Json entries) override {
    for (Json& entry : entries) {
      logprobs_.push_back(entry);
      delta_logprobs_.push_back(std::move(entry));
    }
  }
  void end(const Json& where, EventLog& log) override {
    if (!log.is_on()) return;
    if (!delta_logprobs_.empty()) add("", where, log);
    log.add("response.output_text.done", with(place(where), {{"text", text_}, {"logprobs", logprobs_}}));
    log.add("response.content_part.done", with(place(where), {{"part", part(text_, logprobs_)}}));
  }

 private:
  static Json part(std::string_view text, const Json& logprobs) {
    return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", logprobs}};
  }
  static Json place(const Json& where) { return with(where, {{"content_index", 0}}); }

  std::string text_;
  Json logprobs_ = Json::array();
  Json delta_logprobs_ = Json::array();
};

// The members that all kinds of calls have.
Json call_json(const std::string& id, std::string_view type, ItemStatus status, const std::string& call_id) {
  return {{"id", id}, {"type", type}, {"status", name_of(status)}, {"call_id", call_id}};
}

void add_name(Json& item, const ResponsesTool& tool) {
  item["name"] = tool.name;
  if (!tool.name_space.empty()) item["namespace"] = tool.name_space;
}

class FunctionCallItem : public Item {
 public:
  explicit FunctionCallItem(ResponsesTool tool)
      : Item("fc_"), tool_(std::move(tool)), call_id_("call_" + random_base62(24)) {}

  Json json(ItemStatus status) const override {
    Json item = call_json(id(), "function_call", status, call_id_);
    add_name(item, tool_);
    item["arguments"] = status == ItemStatus::kInProgress ? std::string() : arguments_;
    return item;
  }

  void add(std::string_view text, const Json& where, EventLog& log) override {
    arguments_ += text;
    if (log.is_on()) log.add("response.function_call_arguments.delta", with(where, {{"delta", text}}));
  }
  void end(const Json& where, EventLog& log) override {
    if (!log.is_on()) return;
    log.add("response.function_call_arguments.done", with(where, {{"name", tool_.name}, {"arguments", arguments_}}));
  }

 private:
  const ResponsesTool tool_;
  const std::string call_id_;
  std::string arguments_;
};

class CustomCallItem : public Item {
 public:
  explicit CustomCallItem(ResponsesTool tool)
      : Item("ctc_"), tool_(std::move(tool)), call_id_("call_" + random_base62(24)) {}

  Json json(ItemStatus status) const override {
    Json item = call_json(id(), "custom_tool_call", status, call_id_);
    add_name(item, tool_);
    item["input"] = status == ItemStatus::kInProgress ? std::string() : input_;
    return item;
  }

  void add(std::string_view text, const Json& where, EventLog& log) override {
    add_input(arguments_.feed(text), where, log);
  }
  void end(const Json& where, EventLog& log) override {
    add_input(arguments_.finish(), where, log);
    if (log.is_on()) log.add("response.custom_tool_call_input.done", with(where, {{"input", input_}}));
  }

 private:
  void add_input(const std::string& text, const Json& where, EventLog& log) {
    input_ += text;
    if (log.is_on() && !text.empty()) log.add("response.custom_tool_call_input.delta", with(where, {{"delta", text}}));
  }

  const ResponsesTool tool_;
  const std::string call_id_;
  CustomToolInput arguments_;
  std::string input_;
};

// The command of a local_shell_call; null when the arguments are none.
Json shell_action(const std::string& arguments) {
  const auto given = chat::parse_json_text(arguments);
  if (!given || !given->is_object()) return nullptr;
  const Json command = given->value("command", Json());
  if (!command.is_array()) return nullptr;
  for (const Json& word : command) {
    if (!word.is_string()) return nullptr;
  }
  Json action = {{"type", "exec"}, {"command", command}, {"env", Json::object()}};
  if (const Json folder = given->value("workdir", Json()); folder.is_string()) action["working_directory"] = folder;
  if (const Json time = given->value("timeout_ms", Json()); time.is_number_integer()) action["timeout_ms"] = time;
  return action;
}

class ShellCallItem : public Item {
 public:
  explicit ShellCallItem(Json action)
      : Item("lsh_"), call_id_("call_" + random_base62(24)), action_(std::move(action)) {}

  Json json(ItemStatus status) const override {
    Json item = call_json(id(), "local_shell_call", status, call_id_);
    item["action"] = action_;
    return item;
  }
  void add(std::string_view, const Json&, EventLog&) override {}
  void end(const Json&, EventLog&) override {}

 private:
  const std::string call_id_;
  const Json action_;
};

class ResponseWriter : public AnswerWriter {
 public:
  ResponseWriter(const ChatRequest& request, const App& app, std::string request_id)
      : request_id_(std::move(request_id)),
        app_(app),
        extras_(std::static_pointer_cast<const ResponsesExtras>(request.extras)),
        forms_{.summarizes = extras_->summarizes, .seals_reasoning = extras_->seals_reasoning},
        echo_(dump_json(extras_->echo)),
        log_(request.stream) {}

  std::optional<http::Piece> begin(int64_t) override {
    if (!log_.is_on()) return std::nullopt;
    http::Response head{.status = 200,
                        .headers = {{"Content-Type", "text/event-stream"},
                                    {"Cache-Control", "no-cache"},
                                    {"x-request-id", request_id_}},
                        .body = {}};
    const std::string object = response_object({.status = "in_progress"});
    log_response("response.created", object);
    log_response("response.in_progress", object);
    return http::Piece{.head = std::move(head), .bytes = log_.take(), .is_last = false};
  }

  std::optional<http::Piece> write(const AnswerUpdate& update) override {
    add_logprobs(update);
    for (const AnswerEvent& event : update.events) add(event);
    if (update.error) return fail_with(*update.error);
    if (update.finish) return finish(update);
    std::string bytes = log_.take();
    if (bytes.empty()) return std::nullopt;
    return http::Piece{.head = {}, .bytes = std::move(bytes), .is_last = false};
  }

  std::string keep_alive() override {
    log_.add("keepalive", Json::object());
    return log_.take();
  }

 private:
  // What the response object says of how far it is.
  struct Progress {
    std::string_view status;
    Json error = nullptr;
    Json incomplete_details = nullptr;
    Json usage = nullptr;
  };

  void add(const AnswerEvent& event) {
    switch (event.kind) {
      case AnswerEvent::Kind::kReasoning:
        continue_text(TextKind::kReasoning, event.text);
        break;
      case AnswerEvent::Kind::kContent:
        continue_text(TextKind::kContent, event.text);
        break;
      case AnswerEvent::Kind::kCallBegin:
        close(ItemStatus::kCompleted);
        begin_call(event.text);
        break;
      case AnswerEvent::Kind::kCallArguments:
        if (item_) {
          item_->add(event.text, where(), log_);
        } else {
          shell_arguments_ += event.text;
        }
        break;
      case AnswerEvent::Kind::kCallEnd:
        end_call(event.is_complete);
        break;
    }
  }

  enum class TextKind : uint8_t { kNone, kReasoning, kContent };

  void continue_text(TextKind kind, std::string_view text) {
    if (text_kind_ != kind) {
      close(ItemStatus::kCompleted);
      if (kind == TextKind::kReasoning) {
        open(std::make_unique<ReasoningItem>(forms_));
      } else {
        open(std::make_unique<MessageItem>());
        item_->add_logprobs(std::exchange(logprobs_, Json::array()));
      }
      text_kind_ = kind;
    }
    item_->add(text, where(), log_);
  }

  // The name is as the model wrote it where no tool is called so: the client then says that it knows none.
  void begin_call(const std::string& name) {
    const ResponsesTool* declared = extras_->tools.find(name);
    const ResponsesTool tool = declared ? *declared : ResponsesTool{.name = name, .name_space = {}, .flat_name = name};
    switch (tool.kind) {
      case ResponsesTool::Kind::kFunction:
        return open(std::make_unique<FunctionCallItem>(tool));
      case ResponsesTool::Kind::kCustom:
        return open(std::make_unique<CustomCallItem>(tool));
      case ResponsesTool::Kind::kLocalShell:
        // Its item has no events of its own, so it can wait until the command is whole.
        shell_ = tool;
        shell_arguments_.clear();
    }
  }

  // A shell call whose arguments are no command is shown as a function's, as it is.
  void end_call(bool is_complete) {
    if (shell_) {
      Json action = is_complete ? shell_action(shell_arguments_) : Json();
      const ResponsesTool tool = *std::exchange(shell_, std::nullopt);
      if (!action.is_null()) {
        open(std::make_unique<ShellCallItem>(std::move(action)));
      } else {
        open(std::make_unique<FunctionCallItem>(tool));
        item_->add(shell_arguments_, where(), log_);
      }
    }
    close(is_complete ? ItemStatus::kCompleted : ItemStatus::kIncomplete);
  }

  void open(std::unique_ptr<Item> item) {
    item_ = std::move(item);
    if (!log_.is_on()) return;
    log_.add("response.output_item.added",
             {{"output_index", output_.size()}, {"item", item_->json(ItemStatus::kInProgress)}});
    item_->begin(where(), log_);
  }

  void close(ItemStatus status) {
    if (!item_) return;
    item_->end(where(), log_);
    std::string json = dump_json(item_->json(status));
    log_.add_text("response.output_item.done", fmt::format(R"({{"output_index":{},"item":{}}})", output_.size(), json));
    output_.push_back(std::move(json));
    item_.reset();
    text_kind_ = TextKind::kNone;
  }

  Json where() const {
    if (!log_.is_on()) return Json::object();
    return {{"item_id", item_->id()}, {"output_index", output_.size()}};
  }

  // Those of an update come before its text: the message that they belong to is the open one, or the next.
  void add_logprobs(const AnswerUpdate& update) {
    for (const engine::TokenInfo& info : update.logprobs) {
      logprobs_.push_back(token_logprob_json(info, app_.context.tokenizer));
    }
    if (text_kind_ == TextKind::kContent) item_->add_logprobs(std::exchange(logprobs_, Json::array()));
  }

  std::optional<http::Piece> fail_with(const Error& error) {
    if (!log_.is_on()) {
      return http::Piece{.head = write_responses_error(error, request_id_), .bytes = {}, .is_last = true};
    }
    const Json what = {{"code", error_code(error)}, {"message", error.message()}};
    log_response("response.failed", response_object({.status = "failed", .error = what}));
    return http::Piece{.head = {}, .bytes = log_.take(), .is_last = true};
  }

  std::optional<http::Piece> finish(const AnswerUpdate& last) {
    const bool is_cut = last.finish->reason == FinishReason::kLength;
    close(is_cut ? ItemStatus::kIncomplete : ItemStatus::kCompleted);
    Progress progress{.status = is_cut ? "incomplete" : "completed", .usage = usage_json(last.usage)};
    if (is_cut) progress.incomplete_details = {{"reason", "max_output_tokens"}};
    std::string object = response_object(progress);
    if (extras_->is_stored) store(object);
    if (!log_.is_on()) {
      return http::Piece{.head = openai_response_of(std::move(object), request_id_), .bytes = {}, .is_last = true};
    }
    log_response(is_cut ? "response.incomplete" : "response.completed", object);
    return http::Piece{.head = {}, .bytes = log_.take(), .is_last = true};
  }

  void store(const std::string& object) const {
    std::string items = extras_->items;
    for (const std::string& item : output_) {
      if (!items.empty()) items += ',';
      items += item;
    }
    app_.responses.put({.id = id_, .object = object, .items = std::move(items)});
  }

  std::string response_object(const Progress& progress) const {
    Json head = {{"id", id_}, {"object", "response"}, {"created_at", created_s_}};
    if (progress.status == "completed") head["completed_at"] = std::time(nullptr);
    head["status"] = progress.status;
    head["error"] = progress.error;
    head["incomplete_details"] = progress.incomplete_details;
    std::string text = dump_json(head);
    text.pop_back();
    return fmt::format(R"({},"output":[{}],{},"usage":{}}})", text, fmt::join(output_, ","),
                       std::string_view(echo_).substr(1, echo_.size() - 2), dump_json(progress.usage));
  }

  void log_response(std::string_view type, std::string_view object) {
    log_.add_text(type, fmt::format(R"({{"response":{}}})", object));
  }

  const std::string request_id_;
  const App& app_;
  const std::shared_ptr<const ResponsesExtras> extras_;
  const ItemForms forms_;
  const std::string echo_;
  const std::string id_ = new_id("resp_");
  const int64_t created_s_ = std::time(nullptr);
  EventLog log_;
  std::vector<std::string> output_;  // the items that are done, as JSON
  std::unique_ptr<Item> item_;       // the one that is being written; null between items
  TextKind text_kind_ = TextKind::kNone;
  Json logprobs_ = Json::array();       // of a message that has not begun
  std::optional<ResponsesTool> shell_;  // a call of the shell that is being written
  std::string shell_arguments_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_responses_writer(const ChatRequest& request, const App& app,
                                                    std::string request_id) {
  return std::make_unique<ResponseWriter>(request, app, std::move(request_id));
}

}  // namespace tempo9::server
