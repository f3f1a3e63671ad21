#include "base/utf8.h"

namespace tempo9 {
namespace {

struct Scan {
  char32_t code_point;
  size_t length;  // bytes that the character, or the ill-formed subpart, takes
  bool well_formed;
  bool incomplete;  // the text ends inside a sequence that could still become a character
};

Scan scan_character(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true, false};
  const Scan bad{kReplacementCharacter, 1, false, false};
  size_t n = 0;
  uint8_t low = 0x80, high = 0xBF;  // range of the second byte, narrower for four lead bytes
  char32_t value = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    n = 2;
    value = lead & 0x1F;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    n = 3;
    value = lead & 0x0F;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    n = 4;
    value = lead & 0x07;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return bad;
  }
  for (size_t i = 1; i < n; ++i) {
    if (i == s.size()) return {kReplacementCharacter, i, false, true};
    if (byte(i) < low || byte(i) > high) return {kReplacementCharacter, i, false, false};
    value = (value << 6) | (byte(i) & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {value, n, true, false};
}

}  // namespace

bool is_valid_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Scan scan = scan_character(bytes);
    if (!scan.well_formed) return false;
    bytes.remove_prefix(scan.length);
  }
  return true;
}

char32_t decode_utf8(std::string_view bytes, size_t& pos) {
  const Scan scan = scan_character(bytes.substr(pos));
  pos += scan.length;
  return scan.code_point;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

std::string sanitize_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  Utf8Joiner joiner;
  joiner.feed(bytes, out);
  joiner.finish(out);
  return out;
}

void Utf8Joiner::feed(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!pending_.empty()) {
    joined = std::move(pending_);
    pending_.clear();
    joined += bytes;
    bytes = joined;
  }
  while (!bytes.empty()) {
    const Scan scan = scan_character(bytes);
    if (scan.incomplete) {
      pending_ = bytes;
      return;
    }
    if (scan.well_formed) {
      out += bytes.substr(0, scan.length);
    } else {
      append_utf8(out, kReplacementCharacter);
    }
    bytes.remove_prefix(scan.length);
  }
}

void Utf8Joiner::finish(std::string& out) {
  if (!pending_.empty()) append_utf8(out, kReplacementCharacter);
  pending_.clear();
}

}  // namespace tempo9
