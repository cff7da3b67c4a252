// AskedThoughts: whether and how much a model should think before it answers,
// and whether its thoughts are sent. The routes spell it differently.
#ifndef WINNOW_SERVE_REQUEST_ASKED_THOUGHTS_H_
#define WINNOW_SERVE_REQUEST_ASKED_THOUGHTS_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/config/json_fields.h"
#include "text/tools/thoughts.h"

namespace winnow {

struct AskedThoughts {
  std::string effort = {};        // "none" to "max"; empty: not set
  std::string effort_field = {};  // the field that set it
  std::optional<bool> thinks = {};
  std::string thinks_field = {};
  bool shows = true;
};

// Each Read fails with a line that names the field. Members without effect are
// added to `ignored`.

// Chats: `reasoning_effort`, and vLLM's `include_reasoning`.
Status ReadChatThoughts(const JsonFields& fields, AskedThoughts& asked);
// Responses: `reasoning`, and the chats' fields.
Status ReadReasoning(const JsonFields& fields, AskedThoughts& asked,
                     std::vector<std::string>& ignored);
// Anthropic's `thinking`.
Status ReadThinking(const JsonFields& fields, AskedThoughts& asked,
                    std::vector<std::string>& ignored);
// The value of `field`.
Status ReadEffort(const nlohmann::json& value, const std::string& field,
                  AskedThoughts& asked);

// `template_json`, the template's variables, with the variables about thoughts
// that the template reads. Existing values stay.
std::string WithThoughts(const std::string& template_json,
                         const AskedThoughts& asked, const ThoughtStyle& style);
// The fields that a template of this style does not follow.
std::vector<std::string> FieldsNotFollowed(const AskedThoughts& asked,
                                           const ThoughtStyle& style);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_ASKED_THOUGHTS_H_
