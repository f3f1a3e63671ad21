#include "server/ids.h"

#include <random>
#include <string_view>

namespace tempo9::server {

namespace {

std::string random_text(size_t n, std::string_view alphabet) {
  std::random_device source;
  std::uniform_int_distribution<size_t> pick(0, alphabet.size() - 1);
  std::string text(n, '\0');
  for (char& c : text) c = alphabet[pick(source)];
  return text;
}

}  // namespace

std::string random_hex(size_t n_digits) { return random_text(n_digits, "0123456789abcdef"); }

std::string random_base62(size_t n_characters) {
  return random_text(n_characters, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
}

std::string random_base36(size_t n_characters) {
  return random_text(n_characters, "0123456789abcdefghijklmnopqrstuvwxyz");
}

}  // namespace tempo9::server
