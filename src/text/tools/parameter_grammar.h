// Lark of one call whose parameters are written one by one.
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

// What GrammarKind::kToolCalls is made of, as far as it has come.
struct CallGrammar {
  std::string rules = {};  // of Lark, a line each
  // By the name that rules have behind "@".
  nlohmann::ordered_json schemas = nlohmann::ordered_json::object();
  // What schemas may still take.
  size_t num_bytes_left = 0;
  // What is not followed: "TOOL.properties.NAME.keyword".
  std::vector<std::string> unheld = {};
};

// As a string of Lark.
std::string QuotedLark(std::string_view text);

// Adds what the expression that they return names; `number` is the tool's, in
// these names. Of a form without tags a tool that describes no parameters has
// none. What the form cannot follow of a schema is left open, and a parameter
// is left out whose name it cannot write; they fail where that is required, and
// where the tool's schema is no object's.
Result<std::string> ParameterTagCall(const CallableTool& tool, size_t number,
                                     const ParameterTypes& types,
                                     CallGrammar& grammar);
Result<std::string> PythonCall(const CallableTool& tool, size_t number,
                               CallGrammar& grammar);

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_PARAMETER_GRAMMAR_H_
