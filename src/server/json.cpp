#include "server/json.h"

#include <fmt/format.h>

#include <optional>
#include <unordered_map>
#include <vector>

#include "base/utf8.h"
#include "server/limits.h"

namespace tempo9::server {

namespace {

std::unexpected<Error> invalid_json(std::string message) {
  return fail(Error(ErrorCode::kInvalidInput, std::move(message)).with_reason("invalid_json"));
}

// The value of the four hex digits at `text[pos]`; nothing when they are not there.
std::optional<uint32_t> hex4(std::string_view text, size_t pos) {
  if (pos + 4 > text.size()) return std::nullopt;
  uint32_t value = 0;
  for (const char c : text.substr(pos, 4)) {
    uint32_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint32_t>(c - '0');
    } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
      digit = static_cast<uint32_t>((c | 0x20) - 'a' + 10);
    } else {
      return std::nullopt;
    }
    value = value * 16 + digit;
  }
  return value;
}

bool is_high_surrogate(uint32_t unit) { return unit >= 0xD800 && unit <= 0xDBFF; }
bool is_low_surrogate(uint32_t unit) { return unit >= 0xDC00 && unit <= 0xDFFF; }

// `text[pos]` is the 'u' of an escape in a string. Makes a surrogate without its other half U+FFFD and gives the
// position after what was read. JavaScript clients that cut a string inside an emoji send these.
size_t repair_unicode_escape(std::string& text, size_t pos) {
  const auto unit = hex4(text, pos + 1);
  if (!unit) return pos + 1;
  if (is_high_surrogate(*unit) && text.compare(pos + 5, 2, "\\u") == 0) {
    const auto next = hex4(text, pos + 7);
    if (next && is_low_surrogate(*next)) return pos + 11;
  }
  if (is_high_surrogate(*unit) || is_low_surrogate(*unit)) text.replace(pos + 1, 4, "FFFD");
  return pos + 5;
}

// Before the parser sees the text: repairs lone surrogates and measures the nesting, so that no recursion anywhere
// later can run out of stack.
Result<void> check_nesting_and_repair(std::string& text) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i++];
    if (in_string) {
      if (c == '"') in_string = false;
      if (c == '\\' && i < text.size()) i = text[i] == 'u' ? repair_unicode_escape(text, i) : i + 1;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) {
        return invalid_json(fmt::format("The request body is nested deeper than {} levels.", kMaxJsonDepth));
      }
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return {};
}

// "[json.exception.parse_error.101] parse error at line 1, column 2: …" without the library's label.
std::string without_label(std::string_view what) {
  const size_t end = what.starts_with('[') ? what.find("] ") : std::string_view::npos;
  return std::string(end == std::string_view::npos ? what : what.substr(end + 2));
}

// Builds the document. The library's own builder looks a key up by walking the object's keys, which is quadratic for
// an object of a million keys; here large objects have an index.
class TreeBuilder : public nlohmann::json_sax<Json> {
 public:
  Json take() { return std::move(root_); }
  const std::string& problem() const { return problem_; }

  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }

  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    key_ = std::move(name);
    if (levels_.back().node->size() < kMaxJsonKeys) return true;
    problem_ = fmt::format("an object has more than {} keys", kMaxJsonKeys);
    return false;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    problem_ = without_label(error.what());
    return false;
  }

 private:
  using Object = Json::object_t;
  static constexpr size_t kIndexedFrom = 16;

  struct Level {
    Json* node;
    std::unordered_map<std::string, size_t> index;  // of the keys of an object that has at least kIndexedFrom
  };

  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json container) {
    Json* node = place(std::move(container));
    levels_.push_back({node, {}});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  // Pointers to open containers stay valid: a container does not grow while one inside it is open.
  Json* place(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = levels_.back();
    if (level.node->is_array()) {
      level.node->push_back(std::move(value));
      return &level.node->back();
    }
    Json& slot = slot_of_key(level);
    slot = std::move(value);
    return &slot;
  }

  Json& slot_of_key(Level& level) {
    auto& object = level.node->get_ref<Object&>();
    if (object.size() < kIndexedFrom) return object[key_];
    if (level.index.empty()) {
      for (size_t i = 0; i < object.size(); ++i) level.index.emplace(object.Object::Container::operator[](i).first, i);
    }
    const auto [entry, is_new] = level.index.try_emplace(key_, object.size());
    if (is_new) object.Object::Container::emplace_back(key_, Json());
    return object.Object::Container::operator[](entry->second).second;
  }

  Json root_;
  std::vector<Level> levels_;
  std::string key_;
  std::string problem_;
};

}  // namespace

Result<Json> parse_json_object(std::string body) {
  if (body.starts_with("\xEF\xBB\xBF")) body.erase(0, 3);
  if (body.find_first_not_of(" \t\r\n") == std::string::npos) {
    return fail(ErrorCode::kInvalidInput, "The request body is empty; a JSON object is expected.");
  }
  if (!is_valid_utf8(body)) body = sanitize_utf8(body);
  T9_TRY_VOID(check_nesting_and_repair(body));
  TreeBuilder builder;
  if (!Json::sax_parse(body, &builder)) {
    return invalid_json(fmt::format("The request body is not valid JSON: {}", builder.problem()));
  }
  Json document = builder.take();
  if (!document.is_object()) {
    return invalid_json(fmt::format("The request body must be a JSON object, not {}.", json_type_name(document)));
  }
  return document;
}

std::string_view json_type_name(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "an integer";
    case Json::value_t::number_float:
      return "a number";
    case Json::value_t::binary:
    case Json::value_t::discarded:
      break;
  }
  return "an unknown value";
}

std::string dump_json(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string dump_json_with(const Json& object, std::string_view name, std::string_view value) {
  std::string text = dump_json(object);
  text.pop_back();
  return fmt::format("{}{}\"{}\":{}}}", text, object.empty() ? "" : ",", name, value);
}

}  // namespace tempo9::server
