// Assertions about our own mistakes. Never for what a user sends or a file holds: that is a Result (base/result.h).
#pragma once

#include <string_view>

namespace tempo9 {

// Prints file, line and the condition to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, std::string_view condition, std::string_view detail);

}  // namespace tempo9

// Always on; not for inner loops. T9_CHECK_MSG takes a string with the values.
#define T9_CHECK(condition) ((condition) ? void(0) : ::tempo9::check_failed(__FILE__, __LINE__, #condition, {}))
#define T9_CHECK_MSG(condition, detail) \
  ((condition) ? void(0) : ::tempo9::check_failed(__FILE__, __LINE__, #condition, (detail)))

// Debug builds only; for inner loops.
#ifdef NDEBUG
#define T9_DCHECK(condition) void(0)
#else
#define T9_DCHECK(condition) T9_CHECK(condition)
#endif
