// The backends that tests of whole models run on.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "backends/cpu/cpu.h"
#include "backends/reference/reference.h"
#include "kernels/kernels.h"

namespace tempo9 {

struct BackendCase {
  std::string name;
  std::string isa;  // empty: the reference backend
  int n_threads = 1;

  bool is_reference() const { return isa.empty(); }
  std::unique_ptr<backends::Backend> make() const {
    if (is_reference()) return backends::make_reference_backend();
    return backends::make_cpu_backend({.n_threads = n_threads, .isa = isa}).value();
  }
};

inline void PrintTo(const BackendCase& backend, std::ostream* out) { *out << backend.name; }

// The cpu backend on every instruction set that this machine has.
inline std::vector<BackendCase> cpu_backends() {
  std::vector<BackendCase> cases;
  for (const kernels::Isa& isa : kernels::all_isas()) {
    if (isa.runs_here()) cases.push_back({.name = "cpu_" + std::string(isa.name), .isa = std::string(isa.name)});
  }
  return cases;
}

inline std::vector<BackendCase> all_backends() {
  std::vector<BackendCase> cases = cpu_backends();
  cases.insert(cases.begin(), {.name = "reference", .isa = ""});
  return cases;
}

}  // namespace tempo9
