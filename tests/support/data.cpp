#include "support/data.h"

namespace tempo9::testing {

// The only source that the checkout's path is compiled into, so that a compiler cache serves the tests of every other.
std::string source_path(const std::string& name) { return T9_SOURCE_DIR "/" + name; }

}  // namespace tempo9::testing
