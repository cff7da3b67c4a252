// ToolList: the tools of a request, as chat templates read them.
#ifndef WINNOW_SERVE_TOOL_LIST_H_
#define WINNOW_SERVE_TOOL_LIST_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "serve/request_fields.h"
#include "text/tool_call_grammar.h"

namespace winnow {

struct ToolList {
  // [{"type": "function", "function": {"name", "description", "parameters"}}],
  // what is a schema in the client's own words; empty: no tools.
  std::string json = {};
  std::vector<CallableTool> tools = {};
  bool strict = false;  // a tool wants its arguments to follow its schema
  // Of responses, those that are no functions: "tools.TYPE" each. OpenAI's
  // servers run them, or its models know them unasked.
  std::vector<std::string> left_out = {};
};

// `tools` in the shape of the endpoint, and the same as it was written. Fails
// on a tool that is no function, or has no name that a model can write.
Result<ToolList> ReadTools(const nlohmann::json& tools, std::string_view raw,
                           Endpoint endpoint);

// What "tool_choice" wants.
struct ToolChoice {
  bool any = true;      // calls are looked for at all
  bool forced = false;  // the answer is calls
  std::string name =
      {};  // of the one tool that must be called; empty: each may
};

// In the words of chats and responses.
Result<ToolChoice> ReadToolChoice(const nlohmann::json& choice,
                                  Endpoint endpoint);

// The tools that an answer must call; none where it need not. Fails where there
// are none to call.
Result<std::vector<CallableTool>> ForcedTools(const ToolChoice& choice,
                                              const ToolList& list);

}  // namespace winnow

#endif  // WINNOW_SERVE_TOOL_LIST_H_
