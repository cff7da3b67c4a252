// ParameterTypes: the parameter types of a request's tools, for calls that
// write arguments as plain text.
#ifndef WINNOW_TEXT_TOOLS_PARAMETER_TYPES_H_
#define WINNOW_TEXT_TOOLS_PARAMETER_TYPES_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "text/tools/tool_call_format.h"

namespace winnow {

// The names of the tools and the types of their parameters. A type comes from
// "type", else from "enum", "const", "anyOf", "oneOf", "allOf" and "$ref"
// within the schema. Const once made, so any thread may read.
class ParameterTypes {
 public:
  explicit ParameterTypes(std::span<const CallableTool> tools);

  bool HasTool(std::string_view name) const;
  // True if the parameter's types include string or are unknown.
  bool MayBeString(std::string_view tool, std::string_view parameter) const;

  // The JSON of an argument that was written as `text`. A parameter that is
  // unknown, has no type or has strings alone gets the text. Another parameter
  // gets the text read as a literal (LiteralReader), also from within a string,
  // if that is of its types, and null for null. Otherwise it gets the text.
  std::string JsonOf(std::string_view tool, std::string_view parameter,
                     std::string_view text) const;

 private:
  using Types = uint8_t;  // one bit for each type; 0: unknown
  using Parameters = std::map<std::string, Types, std::less<>>;

  Types TypesOf(std::string_view tool, std::string_view parameter) const;

  std::map<std::string, Parameters, std::less<>> tools_;
};

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_PARAMETER_TYPES_H_
