// Threads that yield to others of this process.
#pragma once

namespace tempo9 {

// The calling thread gets so many steps of nice more, and so do threads that it makes; each step is a weight of 1
// / 1.25 beside others. On Linux, where a nice value is a thread's own; elsewhere, and when the system refuses, nothing
// changes.
void lower_priority_of_this_thread(int n_steps);

}  // namespace tempo9
