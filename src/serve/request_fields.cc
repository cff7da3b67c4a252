#include "serve/request_fields.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

namespace winnow {
namespace {

using nlohmann::json;
using Use = RequestField::Use;

constexpr std::string_view kNotYet = "is not built yet";
constexpr std::string_view kNoFunctions =
    "functions came before tools: say tools and tool_choice";
constexpr std::string_view kTextOnly = "the model reads and writes text alone";
constexpr std::string_view kNoGrammar = "constrained answers are not built yet";
constexpr std::string_view kFalse = "[false]";

// Both endpoints have these.
constexpr RequestField kSharedFields[] = {
    {"model"},
    {"max_tokens"},
    {"temperature"},
    {"top_p"},
    {"top_k"},
    {"min_p"},
    {"seed"},
    {"stop"},
    {"stop_token_ids"},
    {"ignore_eos"},
    {"skip_special_tokens"},
    {"logprobs"},
    {"frequency_penalty"},
    {"presence_penalty"},
    {"repetition_penalty"},
    {"logit_bias"},
    {"n"},
    {"stream"},
    {"stream_options"},
    {"add_special_tokens"},
    {"select"},
    {"cache_salt"},
    {"user", Use::kIgnored},
    {"request_id", Use::kIgnored},
    {"session_id", Use::kIgnored},
    {"priority", Use::kRefused, kNotYet, "[0]"},
    {"min_tokens", Use::kRefused, kNotYet, "[0]"},
    {"echo", Use::kRefused, kNotYet, kFalse},
    {"length_penalty", Use::kRefused, "beams are not built", "[1, 1.0]"},
    {"use_beam_search", Use::kRefused, "beams are not built", kFalse},
    {"include_stop_str_in_output", Use::kRefused, kNotYet, kFalse},
    {"spaces_between_special_tokens", Use::kRefused, kNotYet, "[true, false]"},
    {"truncate_prompt_tokens", Use::kRefused, "a prompt is never cut"},
    {"prompt_logprobs", Use::kRefused, kNotYet},
    {"allowed_token_ids", Use::kRefused, kNotYet, "[[]]"},
    {"bad_words", Use::kRefused, kNotYet, "[[]]"},
    {"return_token_ids", Use::kRefused, kNotYet, kFalse},
    {"return_tokens_as_token_ids", Use::kRefused, kNotYet, kFalse},
    {"logits_processors", Use::kRefused, kNotYet, "[[]]"},
    {"kv_transfer_params", Use::kRefused, kNotYet, "[{}]"},
    {"vllm_xargs", Use::kRefused, kNotYet, "[{}]"},
    {"response_format", Use::kRefused, kNoGrammar, R"([{"type": "text"}])"},
    {"structured_outputs", Use::kRefused, kNoGrammar},
    {"guided_json", Use::kRefused, kNoGrammar},
    {"guided_regex", Use::kRefused, kNoGrammar},
    {"guided_choice", Use::kRefused, kNoGrammar},
    {"guided_grammar", Use::kRefused, kNoGrammar},
};

constexpr RequestField kChatFields[] = {
    {"messages"},
    {"max_completion_tokens"},
    {"top_logprobs"},
    {"add_generation_prompt"},
    {"chat_template_kwargs"},
    {"metadata", Use::kIgnored},
    {"store", Use::kIgnored},
    {"service_tier", Use::kIgnored},
    {"safety_identifier", Use::kIgnored},
    {"verbosity", Use::kIgnored},
    {"prediction", Use::kIgnored},
    {"moderation", Use::kIgnored},
    {"prompt_cache_key", Use::kIgnored},
    {"prompt_cache_options", Use::kIgnored},
    {"prompt_cache_retention", Use::kIgnored},
    {"tools"},
    {"tool_choice"},
    {"parallel_tool_calls"},
    {"include_reasoning", Use::kIgnored},
    {"reasoning_effort", Use::kRefused,
     "say it in the template's own words (chat_template_kwargs)",
     R"(["none"])"},
    {"thinking_token_budget", Use::kRefused, kNotYet},
    {"functions", Use::kRefused, kNoFunctions, "[[]]"},
    {"function_call", Use::kRefused, kNoFunctions, R"(["none", "auto"])"},
    {"audio", Use::kRefused, kTextOnly},
    {"modalities", Use::kRefused, kTextOnly, R"([["text"], []])"},
    {"web_search_options", Use::kRefused, "the server reaches no network"},
    {"continue_final_message", Use::kRefused, kNotYet, kFalse},
    {"chat_template", Use::kRefused,
     "templates are code: --chat-template names the server's"},
    {"documents", Use::kRefused, kNotYet, "[[]]"},
    {"mm_processor_kwargs", Use::kRefused, kTextOnly},
};

constexpr RequestField kCompletionFields[] = {
    {"prompt"},
    {"best_of", Use::kRefused, "ask for n answers and choose", "[1]"},
    {"suffix", Use::kRefused, kNotYet, R"([""])"},
    {"prompt_embeds", Use::kRefused, "prompts are text or token ids"},
};

std::span<const RequestField> OwnFieldsOf(Endpoint endpoint) {
  if (endpoint == Endpoint::kChatCompletions) return kChatFields;
  return kCompletionFields;
}

// Null where nobody knows it.
const RequestField* Find(Endpoint endpoint, std::string_view name) {
  for (const auto fields :
       {std::span<const RequestField>(kSharedFields), OwnFieldsOf(endpoint)}) {
    const auto found = std::ranges::find(fields, name, &RequestField::name);
    if (found != fields.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

std::vector<RequestField> FieldsOf(Endpoint endpoint) {
  std::vector<RequestField> fields(std::begin(kSharedFields),
                                   std::end(kSharedFields));
  const auto own = OwnFieldsOf(endpoint);
  fields.insert(fields.end(), own.begin(), own.end());
  return fields;
}

Result<std::vector<std::string>> CheckFields(const json& request,
                                             Endpoint endpoint) {
  std::vector<std::string> ignored;
  for (const auto& [name, value] : request.items()) {
    if (value.is_null()) continue;
    const RequestField* field = Find(endpoint, name);
    if (field == nullptr || field->use == Use::kIgnored) {
      ignored.push_back(name);
      continue;
    }
    if (field->use == Use::kRead) continue;
    const json neutral = json::parse(field->neutral);
    if (std::ranges::find(neutral, value) != neutral.end()) continue;
    return MakeError(ErrorCode::kInvalidArgument,
                     "request: field {}: must be absent{}{}: {}", name,
                     neutral.empty() ? "" : " or one of ",
                     neutral.empty() ? "" : field->neutral, field->reason);
  }
  return ignored;
}

Error WrongField(const std::string& field, std::string_view expected) {
  return MakeError(ErrorCode::kInvalidArgument, "request: field {}: must be {}",
                   field, expected);
}

}  // namespace winnow
