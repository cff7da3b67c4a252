// Lark rules of one call whose parameters are written one by one.
#ifndef WINNOW_TEXT_TOOLS_PARAMETER_GRAMMAR_H_
#define WINNOW_TEXT_TOOLS_PARAMETER_GRAMMAR_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tools/parameter_types.h"
#include "text/tools/tool_call_format.h"

namespace winnow {

// The parts of a GrammarKind::kToolCalls grammar built so far.
struct CallGrammar {
  std::string rules = {};  // Lark rules, a line each
  // By the name that rules use behind "@".
  nlohmann::ordered_json schemas = nlohmann::ordered_json::object();
  // Bytes left for schemas.
  size_t num_bytes_left = 0;
  // Keywords that the grammar does not hold: "TOOL.properties.NAME.keyword".
  std::vector<std::string> unheld = {};
};

// The text as a Lark string.
std::string QuotedLark(std::string_view text);

// Add the rules named in the expression that they return. `number` is the
// tool's number in these names. In a form without tags, a tool that describes
// no parameters has none. Parts of a schema that the form cannot express are
// left open. A parameter whose name the form cannot write is left out. Fail if
// such a parameter is required, or if the tool's schema does not describe an
// object.
Result<std::string> ParameterTagCall(const CallableTool& tool, size_t number,
                                     const ParameterTypes& types,
                                     CallGrammar& grammar);
Result<std::string> PythonCall(const CallableTool& tool, size_t number,
                               CallGrammar& grammar);

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_PARAMETER_GRAMMAR_H_
