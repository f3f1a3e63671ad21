// Every published template of the reference collection, rendered with every case, byte for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "chat/template/template.h"
#include "support/data.h"
#include "template_support.h"

namespace tempo9::chat {
namespace {

using namespace testing;

// Where we do not follow the reference, and why.
struct Difference {
  std::string_view name;
  std::string_view error;  // what the reference says
};
constexpr Difference kDifferences[] = {
    // Its sandbox takes list.append for unsafe. Here lists belong to the rendering, and the template works as meant.
    {"Kimi-K2-Thinking", "SecurityError: access to attribute 'append' of 'list' object is unsafe."},
};

bool is_known_difference(const std::string& name, const Json& reference) {
  return std::ranges::any_of(kDifferences, [&](const Difference& difference) {
    return difference.name == name && reference.value("error", "") == difference.error;
  });
}

TEST(TemplateReferences, AllPublishedTemplates) {
  const std::string folder = tempo9::testing::reference_path("templates");
  T9_NEED_DATA(folder);
  const Json cases = read_json(folder + "/cases.json")["cases"];
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".jinja") paths.push_back(entry.path());
  std::ranges::sort(paths);
  EXPECT_GE(paths.size(), 56u);
  // A fraction of the limits is enough for all of them: longer conversations and deeper schemas have room.
  RenderOptions options = reference_options();
  options.limits.depth /= 2;
  options.limits.steps /= 100;
  for (const auto& path : paths) {
    const std::string name = path.stem();
    auto parsed = Template::parse(read_text(path));
    ASSERT_TRUE(parsed) << name << ": " << parsed.error().message();
    const Json references = read_json(folder + "/" + name + ".json");
    for (const auto& [case_name, reference] : references.items()) {
      const auto rendered = parsed->render(cases[case_name], options);
      if (is_known_difference(name, reference)) {
        EXPECT_TRUE(rendered) << name << " " << case_name;
      } else {
        expect_like_reference(rendered, reference, name + " " + case_name);
      }
    }
  }
}

}  // namespace
}  // namespace tempo9::chat
