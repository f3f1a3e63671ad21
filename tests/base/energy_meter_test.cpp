#include "base/energy_meter.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace tempo9 {
namespace {

namespace fs = std::filesystem;

// A folder as Linux has it.
class PowercapMeter : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  void add(const std::string& zone, const std::string& name, uint64_t range) {
    fs::create_directories(folder_ / zone);
    std::ofstream(folder_ / zone / "name") << name << '\n';
    std::ofstream(folder_ / zone / "max_energy_range_uj") << range << '\n';
  }
  void set(const std::string& zone, uint64_t microjoules) {
    std::ofstream(folder_ / zone / "energy_uj") << microjoules << '\n';
  }
  const fs::path folder_ = fs::temp_directory_path() / ("tempo9-powercap-" + std::to_string(getpid()));
};

TEST_F(PowercapMeter, AddsPackagesAndTheirMemoryAndSurvivesTheCountersEnd) {
  add("intel-rapl:0", "package-0", 10'000'000);
  add("intel-rapl:0:0", "core", 10'000'000);
  add("intel-rapl:0:1", "dram", 8'000'000);
  add("intel-rapl:1", "package-1", 10'000'000);
  add("intel-rapl:2", "psys", 10'000'000);
  set("intel-rapl:0", 9'000'000);
  set("intel-rapl:0:0", 1);
  set("intel-rapl:0:1", 500'000);
  set("intel-rapl:1", 0);
  set("intel-rapl:2", 5);
  const auto meter = make_powercap_meter(folder_);
  ASSERT_NE(meter, nullptr);
  EXPECT_EQ(meter->subject(), "package-0, dram, package-1");
  EXPECT_EQ(meter->joules(), 0.0);
  set("intel-rapl:0", 500'000);  // 1 J to the end of the range, and half a one
  set("intel-rapl:0:0", 7'000'000);
  set("intel-rapl:0:1", 750'000);
  set("intel-rapl:1", 2'000'000);
  EXPECT_DOUBLE_EQ(meter->joules(), 1.5 + 0.25 + 2.0);
  fs::remove(folder_ / "intel-rapl:1/energy_uj");
  EXPECT_DOUBLE_EQ(meter->joules(), 3.75) << "a counter that is gone adds nothing";
}

TEST_F(PowercapMeter, IsAbsentWhereNothingCanBeRead) {
  EXPECT_EQ(make_powercap_meter(folder_), nullptr);
  EXPECT_EQ(make_powercap_meter(folder_ / "none"), nullptr);
  add("intel-rapl:0", "package-0", 10'000'000);
  EXPECT_EQ(make_powercap_meter(folder_), nullptr) << "no counter, as for a user who may not read it";
}

}  // namespace
}  // namespace tempo9
