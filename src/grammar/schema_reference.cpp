#include "grammar/schema_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace tempo9::grammar {
namespace {

std::optional<size_t> index_in(const Json& array, const std::string& name) {
  if (!array.is_array() || name.empty() || name.size() > 9) return std::nullopt;
  size_t index = 0;
  for (const char c : name) {
    if (c < '0' || c > '9') return std::nullopt;
    index = index * 10 + static_cast<size_t>(c - '0');
  }
  return index < array.size() ? std::optional(index) : std::nullopt;
}

// Pointers stand in the fragment of a URI: "%25" is a byte.
std::string decode_percents(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto digit = [&](char c) { return kHex.find(c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c); };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) < 16 && digit(text[i + 2]) < 16) {
      out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// "~1" is a slash and "~0" a tilde.
std::string unescape_pointer_part(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '~' && i + 1 < text.size() && (text[i + 1] == '0' || text[i + 1] == '1');
    out += !is_escape ? text[i] : text[++i] == '0' ? '~' : '/';
  }
  return out;
}

const Json* find_child(const Json& parent, const std::string& name) {
  if (parent.is_object()) {
    const auto found = parent.find(name);
    return found == parent.end() ? nullptr : &*found;
  }
  const std::optional<size_t> index = index_in(parent, name);
  return index ? &parent.at(*index) : nullptr;
}

}  // namespace

Result<const Json*> resolve_reference(const Json& root, const Json& ref) {
  const auto bad = [&](std::string_view why) {
    return fail(ErrorCode::kInvalidInput, fmt::format("{} {}", Notation::text_of(ref), why));
  };
  if (!ref.is_string()) return bad("is not a string");
  const std::string text = decode_percents(ref.get_ref<const std::string&>());
  if (text != "#" && !text.starts_with("#/")) return bad("is not a place in this schema");
  const Json* at = &root;
  for (size_t pos = 1; pos < text.size();) {
    const size_t end = std::min(text.find('/', pos + 1), text.size());
    at = find_child(*at, unescape_pointer_part(std::string_view(text).substr(pos + 1, end - pos - 1)));
    if (!at) return bad("refers to nothing");
    pos = end;
  }
  return at;
}

std::string escape_pointer_part(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace tempo9::grammar
