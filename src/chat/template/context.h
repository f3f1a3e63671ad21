// What builtins (filters, tests, methods, functions) are given beside their arguments: the rendering they run in.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/template/meter.h"
#include "chat/template/value.h"

namespace tempo9::chat {

// Makes values, and owns those that could otherwise keep each other alive. Values must not outlive it.
class Context {
 public:
  Context(const TemplateLimits& limits, std::chrono::system_clock::time_point now) : meter_(limits), now_(now) {}
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Meter& meter() { return meter_; }
  std::chrono::system_clock::time_point now() const { return now_; }

  Value string(Text text) { return std::make_shared<const String>(std::move(text), &meter_); }
  Value markup(Text text) { return std::make_shared<const String>(std::move(text), &meter_, true); }
  Value outside_string(std::string bytes) { return string(Text::from_outside(std::move(bytes))); }
  Value list(std::vector<Value> items, SequenceKind kind = SequenceKind::kList) {
    return std::make_shared<List>(std::move(items), kind, meter_);
  }
  Value tuple(std::vector<Value> items) { return list(std::move(items), SequenceKind::kTuple); }
  Value generator(std::vector<Value> items) { return list(std::move(items), SequenceKind::kGenerator); }
  std::shared_ptr<Dict> dict() { return std::make_shared<Dict>(meter_); }
  Value bind(Value self, const Builtin& method);
  Namespace* make_namespace();
  // list.append(value).
  void append(const std::shared_ptr<List>& list, Value value);

 private:
  Meter meter_;  // first: every value reports its end to it
  const std::chrono::system_clock::time_point now_;
  std::deque<Namespace> namespaces_;
  // Lists that grew after they were made: through them alone a list can come to contain itself.
  std::vector<std::shared_ptr<List>> grown_lists_;
};

}  // namespace tempo9::chat
