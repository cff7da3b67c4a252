// A tool's parameters one by one, for forms that write them one by one.
#ifndef WINNOW_TEXT_TOOLS_PARAMETER_LIST_H_
#define WINNOW_TEXT_TOOLS_PARAMETER_LIST_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/tools/tool_call_format.h"

namespace winnow {

struct ToolParameter {
  std::string name;
  nlohmann::ordered_json schema;
  bool required = false;
};

struct ParameterList {
  // As the schema has them, then those that are required and not described.
  std::vector<ToolParameter> parameters;
  // What their schemas may refer to, by the names that it has at the root.
  nlohmann::ordered_json definitions = nlohmann::ordered_json::object();
  // The schema describes none and allows any.
  bool any = false;
  // Keywords of the schema that ask more of an object than properties, which of
  // them are required and whether there may be others.
  std::vector<std::string> unheld = {};
};

// Calls with these parameters follow the tool's schema, but for what is
// unheld, whatever follows each parameter's own. Fails where the schema is no
// object's. REQUIRES: parameters_json is empty or HoldSchema's.
Result<ParameterList> ParametersOf(const CallableTool& tool);

// Where all of a schema of HoldSchema's is a reference, what it refers to, with
// the definitions.
nlohmann::ordered_json WithoutReference(nlohmann::ordered_json schema);

// As messages show what a client wrote: in ASCII, and not all of what is long.
std::string ShownJson(const nlohmann::ordered_json& value);

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_PARAMETER_LIST_H_
