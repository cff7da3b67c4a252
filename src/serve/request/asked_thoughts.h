// AskedThoughts: whether a model is to think before it answers, how much, and
// whether its thoughts are told; the routes spell it differently.
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
  std::string effort = {};        // "none" to "max"; empty: nobody said
  std::string effort_field = {};  // that said it
  std::optional<bool> thinks = {};
  std::string thinks_field = {};
  bool shows = true;
};

// Each Read fails with a line that names the field. Members that change nothing
// are added to `ignored`.

// Of chats: `reasoning_effort`, and vLLM's `include_reasoning`.
Status ReadChatThoughts(const JsonFields& fields, AskedThoughts& asked);
// Of responses: `reasoning`, and the same.
Status ReadReasoning(const JsonFields& fields, AskedThoughts& asked,
                     std::vector<std::string>& ignored);
// Anthropic's `thinking`.
Status ReadThinking(const JsonFields& fields, AskedThoughts& asked,
                    std::vector<std::string>& ignored);
// The value of `field`.
Status ReadEffort(const nlohmann::json& value, const std::string& field,
                  AskedThoughts& asked);

// `template_json`, the variables that a template is given, with what it reads
// of thoughts; what it has of these already stays.
std::string WithThoughts(const std::string& template_json,
                         const AskedThoughts& asked, const ThoughtStyle& style);
// The fields that such a template does not follow.
std::vector<std::string> FieldsNotFollowed(const AskedThoughts& asked,
                                           const ThoughtStyle& style);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_ASKED_THOUGHTS_H_
