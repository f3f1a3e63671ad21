// Which declared tool a name stands for that a model wrote. Spec tool-calling 7.
#include "chat/tools/tool_set.h"

#include <gtest/gtest.h>

namespace tempo9::chat::tools {
namespace {

ToolSet tools_of(std::initializer_list<const char*> names) {
  std::vector<Json> tools;
  for (const char* name : names) tools.push_back({{"type", "function"}, {"function", {{"name", name}}}});
  return ToolSet(tools);
}

std::string resolved(const ToolSet& tools, std::string_view written) {
  const Tool* tool = tools.resolve(written);
  return tool ? tool->name() : "";
}

TEST(ToolSet, AnExactNameWins) {
  const ToolSet tools = tools_of({"read", "Read", "fs__read"});
  EXPECT_EQ(resolved(tools, "read"), "read");
  EXPECT_EQ(resolved(tools, "Read"), "Read");
  EXPECT_EQ(resolved(tools, "READ"), "") << "two fit";
}

TEST(ToolSet, DecorationCaseAndSeparatorsDoNotMatter) {
  const ToolSet tools = tools_of({"read_file"});
  for (const char* written : {"functions.read_file", "default_api.read_file", "\"read_file\"", "`read_file()`",
                              "Read_File", "read-file", "read.file", " read_file "}) {
    EXPECT_EQ(resolved(tools, written), "read_file") << written;
  }
  EXPECT_EQ(resolved(tools, "readfile"), "");
  EXPECT_EQ(resolved(tools, ""), "");
}

TEST(ToolSet, ToolsOfNamespacesAreFoundByEverySpelling) {
  const ToolSet tools = tools_of({"multi_agent_v1__spawn", "mcp__git__log", "mcp__svn__log", "web.search"});
  for (const char* written : {"multi_agent_v1__spawn", "multi_agent_v1.spawn", "spawn", "multi-agent-v1__spawn"}) {
    EXPECT_EQ(resolved(tools, written), "multi_agent_v1__spawn") << written;
  }
  EXPECT_EQ(resolved(tools, "mcp.git.log"), "mcp__git__log");
  EXPECT_EQ(resolved(tools, "log"), "") << "two fit";
  EXPECT_EQ(resolved(tools, "search"), "web.search");
}

}  // namespace
}  // namespace tempo9::chat::tools
