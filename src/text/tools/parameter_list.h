// ParameterList: a tool's parameters, for forms that write them one by one.
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
  // In the schema's order, then required ones that the schema does not
  // describe.
  std::vector<ToolParameter> parameters;
  // Targets of references in the schemas, by their names at the root.
  nlohmann::ordered_json definitions = nlohmann::ordered_json::object();
  // True if the schema describes no parameters and allows any.
  bool any = false;
  // Keywords of the schema beyond properties, required and additional ones.
  std::vector<std::string> unheld = {};
};

// A call with these parameters follows the tool's schema, except for `unheld`,
// if each value follows its own schema. Fails if the schema does not describe
// an object. REQUIRES: parameters_json is empty or a result of HoldSchema.
Result<ParameterList> ParametersOf(const CallableTool& tool);

// If the whole of a HoldSchema schema is a reference, its target with the
// definitions; otherwise the schema.
nlohmann::ordered_json WithoutReference(nlohmann::ordered_json schema);

// A client's value for messages: in ASCII, and shortened.
std::string ShownJson(const nlohmann::ordered_json& value);

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_PARAMETER_LIST_H_
