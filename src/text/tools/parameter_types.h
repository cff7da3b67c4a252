// ParameterTypes: what a request's tools take, for calls that write arguments
// as plain text.
#ifndef WINNOW_TEXT_TOOLS_PARAMETER_TYPES_H_
#define WINNOW_TEXT_TOOLS_PARAMETER_TYPES_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "text/tools/tool_call_format.h"

namespace winnow {

// The names of the tools, and the types that their schemas give their
// parameters: "type", else those of "enum", "const", "anyOf", "oneOf", "allOf"
// and "$ref" within the schema. Const once made, so any thread may read.
class ParameterTypes {
 public:
  explicit ParameterTypes(std::span<const CallableTool> tools);

  bool HasTool(std::string_view name) const;
  // A string is of its types, or they are unknown.
  bool MayBeString(std::string_view tool, std::string_view parameter) const;

  // The JSON of an argument that was written as `text`. A parameter of strings
  // alone, without a type or unknown has the text as it stands. Others have
  // what the text is as a literal (LiteralReader), or as one within a string,
  // where that is of their types, and null where it is null; else the text as
  // it stands.
  std::string JsonOf(std::string_view tool, std::string_view parameter,
                     std::string_view text) const;

 private:
  using Types = uint8_t;  // a bit a type; 0: unknown
  using Parameters = std::map<std::string, Types, std::less<>>;

  Types TypesOf(std::string_view tool, std::string_view parameter) const;

  std::map<std::string, Parameters, std::less<>> tools_;
};

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_PARAMETER_TYPES_H_
