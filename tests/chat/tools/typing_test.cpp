// Argument typing: every row of the collection, and the parts it is made of.
#include "chat/tools/typing.h"

#include <gtest/gtest.h>

#include "chat/template_support.h"
#include "chat/tools/tool_set.h"
#include "support/data.h"

namespace tempo9::chat::tools {
namespace {

TEST(Typing, EveryRowOfTheCollection) {
  const Json file = chat::testing::read_json(tempo9::testing::golden_path("toolcases/typing.json"));
  size_t n_rows = 0;
  for (const Json& schema : file["schemas"]) {
    const Tool tool("t", schema["parameters"]);
    const auto allowed = tool.find_parameter(schema["parameter"].get<std::string>());
    const AllowedTypes* types = allowed ? &*allowed : nullptr;
    for (const Json& row : schema["rows"]) {
      const std::string raw = row["raw"];
      EXPECT_EQ(type_raw_text(raw, types), row["json"]) << schema["id"] << " <" << raw << ">";
      ++n_rows;
    }
    for (const Json& row : schema.value("json_rows", Json::array())) {
      const std::string value = row["value"];
      EXPECT_EQ(type_json_value(value, types), row["json"]) << schema["id"] << " rule J <" << value << ">";
      ++n_rows;
    }
  }
  EXPECT_GE(n_rows, 482u);
}

}  // namespace
}  // namespace tempo9::chat::tools
