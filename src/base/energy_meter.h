// Energy that the machine's own counters report.
#pragma once

#include <memory>
#include <string>

namespace tempo9 {

// Used by one thread. NVML or a Mac's counters would be further classes behind it.
class EnergyMeter {
 public:
  virtual ~EnergyMeter() = default;

  // Joules since the meter was made, of everything that runs on what it measures.
  virtual double joules() = 0;
  // What it measures: "package-0, dram".
  virtual const std::string& subject() const = 0;
};

// What Linux has in `folder` (power capping framework, Documentation/power/powercap): processor packages and the
// memory at them. Null where there is no such counter or this user may not read it.
std::unique_ptr<EnergyMeter> make_powercap_meter(const std::string& folder = "/sys/class/powercap");

}  // namespace tempo9
