// The parts of a request that several routes read alike.
#ifndef WINNOW_SERVE_REQUEST_REQUEST_PARTS_H_
#define WINNOW_SERVE_REQUEST_REQUEST_PARTS_H_

#include <nlohmann/json.hpp>
#include <string_view>

#include "serve/request/completion_request.h"
#include "serve/request/left_out_kinds.h"
#include "serve/request/tool_list.h"

namespace winnow {

// A body as its readers want it: fields by type, as it nests, as it is written.
struct RequestBody {
  JsonFields fields;
  nlohmann::json document;
  std::string_view text;

  // The value of a field; null where it is absent.
  nlohmann::json Value(const char* name) const {
    return document.value(name, nlohmann::json());
  }
};

// Each fails with a line that names the field, what it must be and what it is.

// How tokens are drawn, the seed, and which of them end an answer or are left
// out of its text.
Status ReadSampling(const JsonFields& fields, const RequestRules& rules,
                    CompletionRequest& request);
// The strings in the field `name` that end an answer: a list, or one.
Status ReadStops(const RequestBody& body, const char* name,
                 CompletionRequest& request);
// Which model, what it reads, whose pages it shares, and whether the answer
// streams.
Status ReadDelivery(const JsonFields& fields, CompletionRequest& request);
// What is left out is named as fields that change nothing are.
void AddIgnored(const LeftOutKinds& left_out, CompletionRequest& request);
// Of a chat: its tools, which of them an answer must call, and what else its
// template is given besides the messages.
Status ReadToolsAndTemplate(const RequestBody& body, const ToolChoice& choice,
                            CompletionRequest& request);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_REQUEST_PARTS_H_
