#include "kernels/kernels.h"

namespace tempo9::kernels {

const Isa* find_isa(std::string_view name) {
  for (const Isa& isa : all_isas()) {
    if (isa.name == name) return &isa;
  }
  return nullptr;
}

const Isa& best_isa() {
  const std::span<const Isa> isas = all_isas();
  size_t best = 0;  // scalar runs everywhere
  for (size_t i = 1; i < isas.size(); ++i) {
    if (isas[i].runs_here()) best = i;
  }
  return isas[best];
}

}  // namespace tempo9::kernels
