#include "base/low_priority.h"

#ifdef __linux__
#include <sys/resource.h>
#endif

namespace tempo9 {

void lower_priority_of_this_thread([[maybe_unused]] int n_steps) {
#ifdef __linux__
  const int nice = getpriority(PRIO_PROCESS, 0);
  setpriority(PRIO_PROCESS, 0, nice + n_steps);
#endif
}

}  // namespace tempo9
