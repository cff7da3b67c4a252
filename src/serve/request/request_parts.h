// The fields that several routes read alike.
#ifndef WINNOW_SERVE_REQUEST_REQUEST_PARTS_H_
#define WINNOW_SERVE_REQUEST_REQUEST_PARTS_H_

#include <nlohmann/json.hpp>
#include <string_view>

#include "serve/request/completion_request.h"
#include "serve/request/left_out_kinds.h"
#include "serve/request/tool_list.h"

namespace winnow {

// A body in three forms: typed fields, parsed JSON, and text.
struct RequestBody {
  JsonFields fields;
  nlohmann::json document;
  std::string_view text;

  // The value of a field; null if absent.
  nlohmann::json Value(const char* name) const {
    return document.value(name, nlohmann::json());
  }
};

// Each Read fails with a line that names the field, the expected value and the
// value found.

// Reads sampling, the seed, and the tokens that end an answer or are left out
// of its text.
Status ReadSampling(const JsonFields& fields, const RequestRules& rules,
                    CompletionRequest& request);
// Reads the stop strings in the field `name`: a list, or one.
Status ReadStops(const RequestBody& body, const char* name,
                 CompletionRequest& request);
// Reads the model, the selector, the cache salt, and whether the answer
// streams.
Status ReadDelivery(const JsonFields& fields, CompletionRequest& request);
// Adds parts left out to the fields without effect.
void AddIgnored(const LeftOutKinds& left_out, CompletionRequest& request);
// Chats: reads the tools, the calls that an answer must make, and the
// template's variables beside the messages.
Status ReadToolsAndTemplate(const RequestBody& body, const ToolChoice& choice,
                            CompletionRequest& request);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_REQUEST_PARTS_H_
