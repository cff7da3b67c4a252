// ToolList: the tools of a request, as chat templates read them.
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
  // what is a schema in the client's own words.
  std::string json;
  bool strict = false;  // it wants its arguments to follow its schema
};

struct ToolList {
  std::vector<ToldTool> tools = {};
  // Tools that are no functions of the client, as "tools.TYPE": a service runs
  // such a tool, or its models know it already.
  LeftOutKinds left_out = {};

  std::string Json() const;  // a list; empty: no tools
  bool strict() const;       // of any
};

// `tools` in the shape of the endpoint, and the same as it was written. Fails
// on a function that has no name that a model can write.
Result<ToolList> ReadTools(const nlohmann::json& tools, std::string_view raw,
                           Endpoint endpoint);

// The request's "tool_choice".
struct ToolChoice {
  bool any = true;      // calls are looked for at all
  bool forced = false;  // the answer is calls
  std::string name =
      {};  // of the one tool that must be called; empty: each may
  // Of all that may be called: the model is told of no others. None: all may.
  std::optional<std::vector<std::string>> allowed = {};
  // "tool_choice.TYPE", of a tool that is no function: the model is not told
  // of such tools, so that each answer is allowed.
  LeftOutKinds left_out = {};
};

// In the words of chats and responses.
Result<ToolChoice> ReadToolChoice(const nlohmann::json& choice,
                                  Endpoint endpoint);

// Leaves those that the choice allows. Fails where it allows one that is not
// among them.
Status KeepAllowed(const ToolChoice& choice, ToolList& list);

// The tools that an answer must call; none where it need not. Fails where there
// are none to call.
Result<std::vector<CallableTool>> ForcedTools(const ToolChoice& choice,
                                              const ToolList& list);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_TOOL_LIST_H_
