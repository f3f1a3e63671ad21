// The values of a template: Python's, as far as templates can see them.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "chat/message.h"
#include "chat/template/meter.h"
#include "chat/template/text.h"

namespace tempo9::chat {

class Dict;
class Value;
struct BoundMethod;
struct Builtin;
struct For;
struct List;
struct Loop;
struct MacroObject;
struct Namespace;
struct Scope;
struct String;

// A missing variable, key or element. `problem` is what using it reports.
struct Undefined {
  std::shared_ptr<const std::string> problem;
};

struct None {};

class Value {
 public:
  using Storage = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const String>,
                               std::shared_ptr<List>, std::shared_ptr<Dict>, Namespace*, const MacroObject*,
                               std::shared_ptr<Loop>, std::shared_ptr<const BoundMethod>, const Builtin*>;

  Value() = default;  // undefined
  Value(None none) : storage_(none) {}
  Value(bool value) : storage_(value) {}
  Value(int value) : storage_(static_cast<int64_t>(value)) {}
  Value(int64_t value) : storage_(value) {}
  Value(double value) : storage_(value) {}
  Value(std::shared_ptr<const String> string) : storage_(std::move(string)) {}
  Value(std::shared_ptr<List> list) : storage_(std::move(list)) {}
  Value(std::shared_ptr<Dict> dict) : storage_(std::move(dict)) {}
  Value(Namespace* space) : storage_(space) {}
  Value(const MacroObject* macro) : storage_(macro) {}
  Value(std::shared_ptr<Loop> loop) : storage_(std::move(loop)) {}
  Value(std::shared_ptr<const BoundMethod> method) : storage_(std::move(method)) {}
  Value(const Builtin* function) : storage_(function) {}
  static Value undefined(std::string problem);

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(storage_);
  }
  bool is_undefined() const { return is<Undefined>(); }
  bool is_none() const { return is<None>(); }
  bool is_string() const { return is<std::shared_ptr<const String>>(); }
  bool is_list() const { return is<std::shared_ptr<List>>(); }
  bool is_dict() const { return is<std::shared_ptr<Dict>>(); }
  bool is_integral() const { return is<int64_t>() || is<bool>(); }  // a Python bool is an int
  bool is_number() const { return is_integral() || is<double>(); }
  bool is_callable() const;

  // REQUIRES: the value is of that kind.
  const Text& text() const;
  bool is_markup() const;
  std::string_view bytes() const;
  const std::shared_ptr<List>& list() const { return std::get<std::shared_ptr<List>>(storage_); }
  const std::vector<Value>& items() const;
  const std::shared_ptr<Dict>& dict() const { return std::get<std::shared_ptr<Dict>>(storage_); }
  int64_t integer() const { return is<bool>() ? std::get<bool>(storage_) : std::get<int64_t>(storage_); }
  double number() const { return is<double>() ? std::get<double>(storage_) : static_cast<double>(integer()); }
  template <class T>
  const T& get() const {
    return std::get<T>(storage_);
  }
  const Storage& storage() const { return storage_; }

 private:
  Storage storage_;
};

struct String {
  String(Text value, Meter* payer, bool markup = false);
  ~String();
  String(const String&) = delete;
  String& operator=(const String&) = delete;

  const Text text;
  // What the filter `safe` returns: + escapes the other operand for HTML, as the reference does.
  const bool is_markup;

 private:
  Meter* const payer_;  // null for the literals of a template
};

enum class SequenceKind : uint8_t {
  kList,
  kTuple,
  kRange,
  kGenerator,  // what map, select and the like give: no length, no index, one pass, always true
  kKeysView,
  kValuesView,
  kItemsView,
};

struct List {
  List(std::vector<Value> values, SequenceKind sequence_kind, Meter& payer);
  ~List();
  List(const List&) = delete;
  List& operator=(const List&) = delete;

  std::vector<Value> items;
  const SequenceKind kind;
  int nesting = 1;
  bool is_consumed = false;  // generators only
  bool is_grown = false;     // Context holds it until the end

  bool has_length() const { return kind != SequenceKind::kGenerator; }
  bool is_indexable() const { return kind <= SequenceKind::kRange; }

  Meter& payer;
  size_t paid_bytes = 0;
};

// Keeps the order of insertion.
class Dict {
 public:
  explicit Dict(Meter& payer) : payer_(payer) {}
  ~Dict();
  Dict(const Dict&) = delete;
  Dict& operator=(const Dict&) = delete;

  // Null when there is none. Numbers and booleans that are equal are the same key, as in Python.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  // REQUIRES: is_hashable(key).
  void set(Value key, Value value);

  const std::vector<std::pair<Value, Value>>& entries() const { return entries_; }
  int nesting() const { return nesting_; }

 private:
  size_t index_of(const Value& key) const;

  Meter& payer_;
  std::vector<std::pair<Value, Value>> entries_;
  std::map<std::string_view, size_t> text_index_;  // views into the keys
  int nesting_ = 1;
  size_t paid_bytes_ = 0;
};

// Its attributes survive the scopes they are set in. Owned by the rendering.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
  Value* find(std::string_view name);
  void set(std::string_view name, Value value);
};

// A method together with the value it was looked up on.
struct BoundMethod {
  Value self;
  const Builtin* method;
};

// `loop` inside a for. It may outlive the loop, through a namespace.
struct Loop {
  std::shared_ptr<List> items;
  int64_t index0 = 0;
  int depth0 = 0;
  const For* recursive = nullptr;  // the statement, when it is marked recursive
  Scope* scope = nullptr;          // the one around the statement; set with `recursive`
};

inline const Text& Value::text() const { return std::get<std::shared_ptr<const String>>(storage_)->text; }
inline std::string_view Value::bytes() const { return text().bytes; }
inline bool Value::is_markup() const {
  return is_string() && std::get<std::shared_ptr<const String>>(storage_)->is_markup;
}
inline const std::vector<Value>& Value::items() const { return list()->items; }

// What using an undefined value reports. REQUIRES: value.is_undefined().
Error undefined_error(const Value& value);
// Python's names, for messages: "str", "NoneType", "list".
std::string_view type_name(const Value& value);
// bool(value).
bool is_true(const Value& value);
// str(value): origins are kept for strings and lost for everything else. Stops at the meter's text limit.
Text to_text(const Value& value, Meter& meter);
// Python's repr(value), appended to `out`.
void append_repr(const Value& value, Meter& meter, std::string& out);
// value == other.
bool is_equal(const Value& a, const Value& b, Meter& meter);
// a <=> b as Python orders them. Errors: kInvalidInput for types that have no order among them.
Result<std::partial_ordering> compare(const Value& a, const Value& b, Meter& meter);
// Whether it may be a dict key: not a list or dict, nor a tuple with one in it.
bool is_hashable(const Value& value);
// Nesting of lists and dicts in it; 0 for others.
int nesting_of(const Value& value);

// repr(double): "1.0", "1e+21", "nan".
std::string float_repr(double value);

}  // namespace tempo9::chat
