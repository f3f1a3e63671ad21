// The tools of a Responses request (spec api 4.3): what the model is offered, and to which of the client's tools a call
// of the model belongs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/field_reader.h"

namespace tempo9::server {

// A tool that the client runs.
struct ResponsesTool {
  enum class Kind : unsigned char {
    kFunction,
    kCustom,      // takes text; the model sees a function with the one string `input`
    kLocalShell,  // takes a command; the model sees a function
  };

  Kind kind = Kind::kFunction;
  std::string name;
  std::string name_space;  // empty: none
  std::string flat_name;   // what the model calls it
};

// The name by which the model knows a tool of a namespace: NAMESPACE__NAME, cut to 64 characters with a hash of the
// whole at the end. Without a namespace the name is unchanged.
std::string flat_tool_name(std::string_view name_space, std::string_view name);

class ResponsesTools {
 public:
  // Adds the tools in the array `name` of `fields`, if it is there. Tools that OpenAI's own servers run, and kinds that
  // are not known, are left out and logged; of tools with one name the first stays. Faults are the reader's.
  void read(FieldReader& fields, std::string_view name);

  // In the form that templates are given.
  const std::vector<Json>& offered() const { return offered_; }
  // Null when no tool is called so. The result lives until the next read.
  const ResponsesTool* find(std::string_view flat_name) const;

 private:
  void read_tool(FieldReader& tool, const std::string& name_space);
  void read_namespace(FieldReader& tool);
  void add(ResponsesTool::Kind kind, const std::string& name_space, Json function);

  std::vector<ResponsesTool> tools_;
  std::vector<Json> offered_;  // of each of tools_
};

}  // namespace tempo9::server
