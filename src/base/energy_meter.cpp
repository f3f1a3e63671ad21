#include "base/energy_meter.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace tempo9 {

namespace {

template <class T>
std::optional<T> read_value(const std::filesystem::path& path) {
  std::ifstream file(path);
  T value{};
  return file >> value ? std::optional(std::move(value)) : std::nullopt;
}

// A counter in microjoules, which begins again at zero once it has passed its range.
struct Zone {
  std::filesystem::path counter;
  uint64_t range = 0;
  uint64_t last = 0;
};

class PowercapMeter final : public EnergyMeter {
 public:
  PowercapMeter(std::vector<Zone> zones, std::string subject)
      : zones_(std::move(zones)), subject_(std::move(subject)) {}

  double joules() override {
    for (Zone& zone : zones_) {
      const uint64_t now = read_value<uint64_t>(zone.counter).value_or(zone.last);
      microjoules_ += now >= zone.last ? now - zone.last : zone.range - zone.last + now;
      zone.last = now;
    }
    return static_cast<double>(microjoules_) / 1e6;
  }

  const std::string& subject() const override { return subject_; }

 private:
  std::vector<Zone> zones_;
  const std::string subject_;
  uint64_t microjoules_ = 0;
};

// "core" and "uncore" are parts of a package, "psys" is more than the machine's processors.
bool is_measured(const std::string& name) { return name.starts_with("package") || name == "dram"; }

}  // namespace

std::unique_ptr<EnergyMeter> make_powercap_meter(const std::string& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) folders.push_back(entry.path());
  std::ranges::sort(folders);
  std::vector<Zone> zones;
  std::string subject;
  for (const std::filesystem::path& path : folders) {
    const std::string name = read_value<std::string>(path / "name").value_or("");
    const auto now = read_value<uint64_t>(path / "energy_uj");
    const auto range = read_value<uint64_t>(path / "max_energy_range_uj");
    if (!is_measured(name) || !now || !range || *now > *range) continue;
    zones.push_back({path / "energy_uj", *range, *now});
    subject += (subject.empty() ? "" : ", ") + name;
  }
  if (zones.empty()) return nullptr;
  return std::make_unique<PowercapMeter>(std::move(zones), std::move(subject));
}

}  // namespace tempo9
