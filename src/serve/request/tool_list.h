// ToolList: a request's tools in the form of chat templates.
#ifndef WINNOW_SERVE_REQUEST_TOOL_LIST_H_
#define WINNOW_SERVE_REQUEST_TOOL_LIST_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/request/left_out_kinds.h"
#include "serve/request/request_fields.h"
#include "text/tools/tool_call_grammar.h"

namespace winnow {

struct ToldTool {
  CallableTool tool;
  // {"type": "function", "function": {"name", "description", "parameters"}},
  // with the schema as the client wrote it.
  std::string json;
  bool strict = false;  // its arguments must follow its schema
};

struct ToolList {
  std::vector<ToldTool> tools = {};
  // Tools that are not functions of the client, as "tools.TYPE". A service runs
  // such a tool, or its models know it already.
  LeftOutKinds left_out = {};

  std::string Json() const;  // a list; empty: no tools
  bool strict() const;       // true if any tool is strict
};

// Reads `tools` in the endpoint's form; `raw` is the same as written. Fails on
// a function whose name a model cannot write.
Result<ToolList> ReadTools(const nlohmann::json& tools, std::string_view raw,
                           Endpoint endpoint);

// The request's "tool_choice".
struct ToolChoice {
  bool any = true;      // calls are parsed
  bool forced = false;  // the answer must be calls
  // The tool that must be called; empty: any.
  std::string name = {};
  // The tools that may be called; the model is told of no others. None: all.
  std::optional<std::vector<std::string>> allowed = {};
  // "tool_choice.TYPE" of a tool that is not a function. The model is not told
  // of such tools, so every answer is allowed.
  LeftOutKinds left_out = {};
};

// In the form of chats and responses.
Result<ToolChoice> ReadToolChoice(const nlohmann::json& choice,
                                  Endpoint endpoint);

// Keeps the allowed tools. Fails if an allowed tool is not in the list.
Status KeepAllowed(const ToolChoice& choice, ToolList& list);

// The tools of which an answer must call one; empty if none is required. Fails
// if there is none to call.
Result<std::vector<CallableTool>> ForcedTools(const ToolChoice& choice,
                                              const ToolList& list);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_TOOL_LIST_H_
