#include "serve/request/request_fields.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <span>

#include "model/config/json_fields.h"

namespace winnow {
namespace {

using nlohmann::json;
using Use = RequestField::Use;

constexpr size_t kMaxIgnoredNames = 16;
constexpr size_t kMaxIgnoredNameBytes = 64;

constexpr std::string_view kNotYet = "is not built yet";
constexpr std::string_view kNoFunctions =
    "functions came before tools: say tools and tool_choice";
constexpr std::string_view kTextOnly = "the model reads and writes text alone";
constexpr std::string_view kKeepsNothing =
    "the server keeps nothing of a request: send the whole input";
constexpr std::string_view kNeverCut = "a prompt is never cut";
constexpr std::string_view kFalse = "[false]";

// All routes have these.
constexpr RequestField kSharedFields[] = {
    {"model"},
    {"temperature"},
    {"top_p"},
    {"top_k"},
    {"min_p"},
    {"seed"},
    {"stop_token_ids"},
    {"ignore_eos"},
    {"skip_special_tokens"},
    {"frequency_penalty"},
    {"presence_penalty"},
    {"repetition_penalty"},
    {"logit_bias"},
    {"stream"},
    {"add_special_tokens"},
    {"select"},
    {"cache_salt"},
    {"priority"},
    {"timeout"},
    {"user", Use::kIgnored},
    {"request_id", Use::kIgnored},
    {"session_id", Use::kIgnored},
    {"min_tokens"},
    {"allowed_token_ids"},
    {"length_penalty", Use::kRefused, "beams are not built", "[1, 1.0]"},
    {"use_beam_search", Use::kRefused, "beams are not built", kFalse},
    {"include_stop_str_in_output"},
    {"spaces_between_special_tokens", Use::kRefused, kNotYet, "[true, false]"},
    {"truncate_prompt_tokens", Use::kRefused, kNeverCut},
    {"prompt_logprobs", Use::kRefused,
     "say echo and logprobs to /v1/completions"},
    {"bad_words"},
    {"logits_processors", Use::kRefused, kNotYet, "[[]]"},
    {"kv_transfer_params", Use::kRefused, kNotYet, "[{}]"},
    {"ec_transfer_params", Use::kRefused, kNotYet, "[{}]"},
    {"logprob_token_ids", Use::kRefused, "say logprobs and how many", "[[]]"},
    {"repetition_detection", Use::kRefused, kNotYet},
    {"watermarking", Use::kRefused, kNotYet, kFalse},
    {"truncation_side", Use::kIgnored},
    {"stream_interval", Use::kIgnored},
    {"return_token_offsets", Use::kIgnored},
    {"return_mm_kwargs", Use::kIgnored},
    {"routed_experts_prompt_start", Use::kIgnored},
    {"vllm_xargs", Use::kRefused, kNotYet, "[{}]"},
    {"structured_outputs"},
    {"guided_json"},
    {"guided_regex"},
    {"guided_choice"},
    {"guided_grammar"},
    {"guided_whitespace_pattern"},
    {"guided_decoding_backend", Use::kIgnored},
};

// Completions and chats.
constexpr RequestField kOlderFields[] = {
    {"max_tokens"},
    {"stop"},
    {"logprobs"},
    {"n"},
    {"stream_options"},
    {"winnow"},
    {"response_format"},
    {"return_token_ids"},
    {"return_tokens_as_token_ids"},
};

// All that goes through a chat template.
constexpr RequestField kTemplateFields[] = {
    {"tools"},
    {"tool_choice"},
    {"add_generation_prompt"},
    {"chat_template_kwargs"},
    {"metadata", Use::kIgnored},
    {"service_tier", Use::kIgnored},
    {"continue_final_message"},
    {"chat_template", Use::kRefused,
     "templates are code: --chat-template names the server's"},
    {"documents", Use::kRefused, kNotYet, "[[]]"},
    {"mm_processor_kwargs", Use::kRefused, kTextOnly, "[{}]"},
    {"media_io_kwargs", Use::kRefused, kTextOnly, "[{}]"},
    {"return_prompt_text", Use::kRefused, "ask /tokenize, then /detokenize",
     kFalse},
    {"thinking_token_budget", Use::kRefused, kNotYet},
};

// OpenAI's of the newer two.
constexpr RequestField kOpenAiFields[] = {
    {"parallel_tool_calls"},
    {"top_logprobs"},
    {"store", Use::kIgnored},
    {"safety_identifier", Use::kIgnored},
    {"moderation", Use::kIgnored},
    {"prompt_cache_key", Use::kIgnored},
    {"prompt_cache_options", Use::kIgnored},
    {"prompt_cache_retention", Use::kIgnored},
    {"include_reasoning"},
};

constexpr RequestField kChatFields[] = {
    {"messages"},
    {"max_completion_tokens"},
    {"echo", Use::kRefused, "a template has written the prompt", kFalse},
    {"verbosity", Use::kIgnored},
    {"prediction", Use::kIgnored},
    {"reasoning_effort"},
    {"functions", Use::kRefused, kNoFunctions, "[[]]"},
    {"function_call", Use::kRefused, kNoFunctions, R"(["none", "auto"])"},
    {"audio", Use::kRefused, kTextOnly},
    {"modalities", Use::kRefused, kTextOnly, R"([["text"], []])"},
    {"web_search_options", Use::kRefused, "the server reaches no network"},
};

constexpr RequestField kResponsesFields[] = {
    {"input"},
    {"instructions"},
    {"max_output_tokens"},
    {"include"},
    {"text"},
    {"stream_options", Use::kIgnored},
    {"max_tool_calls", Use::kIgnored},
    {"reasoning"},
    {"previous_response_id", Use::kRefused, kKeepsNothing},
    {"conversation", Use::kRefused, kKeepsNothing},
    {"prompt", Use::kRefused, kKeepsNothing},
    {"background", Use::kRefused, kKeepsNothing, kFalse},
    {"truncation", Use::kRefused, kNeverCut, R"(["disabled"])"},
    {"context_management", Use::kIgnored},
    {"return_token_ids", Use::kRefused, kNotYet, kFalse},
    {"return_tokens_as_token_ids", Use::kRefused, kNotYet, kFalse},
};

// Anthropic's.
constexpr RequestField kMessagesFields[] = {
    {"messages"},
    {"system"},
    {"cache_control", Use::kIgnored},
    {"inference_geo", Use::kIgnored},
    {"user_profile_id", Use::kIgnored},
    {"thinking"},
    {"output_config"},
    {"output_format"},
    // Of tools that a service runs, which are left out.
    {"container", Use::kIgnored},
    {"mcp_servers", Use::kIgnored},
    {"context_management", Use::kIgnored},
    {"return_token_ids", Use::kRefused, kNotYet, kFalse},
    {"return_tokens_as_token_ids", Use::kRefused, kNotYet, kFalse},
};

constexpr RequestField kMessageLengthFields[] = {
    {"max_tokens"},
    {"stop_sequences"},
};

constexpr RequestField kCompletionFields[] = {
    {"prompt"},
    {"echo"},
    {"best_of", Use::kRefused, "ask for n answers and choose", "[1]"},
    {"suffix", Use::kRefused, kNotYet, R"([""])"},
    {"prompt_embeds", Use::kRefused, "prompts are text or token ids"},
    {"max_repetition_pattern_size", Use::kRefused, kNotYet, "[0]"},
    {"min_repetition_pattern_size", Use::kIgnored},
    {"repetition_min_count", Use::kIgnored},
};

using Fields = std::span<const RequestField>;

std::vector<Fields> TablesOf(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kCompletions:
      return {kSharedFields, kOlderFields, kCompletionFields};
    case Endpoint::kChatCompletions:
      return {kSharedFields, kOlderFields, kTemplateFields, kOpenAiFields,
              kChatFields};
    case Endpoint::kResponses:
      return {kSharedFields, kTemplateFields, kOpenAiFields, kResponsesFields};
    case Endpoint::kMessages:
      return {kSharedFields, kTemplateFields, kMessagesFields,
              kMessageLengthFields};
    case Endpoint::kMessageTokens:
      return {kSharedFields, kTemplateFields, kMessagesFields};
  }
  CHECK(false, "endpoint={}", static_cast<int>(endpoint));
}

// Null where nobody knows it.
const RequestField* Find(const std::vector<Fields>& tables,
                         std::string_view name) {
  for (const Fields fields : tables) {
    const auto found = std::ranges::find(fields, name, &RequestField::name);
    if (found != fields.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

std::vector<RequestField> FieldsOf(Endpoint endpoint) {
  std::vector<RequestField> all;
  for (const Fields fields : TablesOf(endpoint)) {
    all.insert(all.end(), fields.begin(), fields.end());
  }
  return all;
}

Result<std::vector<std::string>> CheckFields(const json& request,
                                             Endpoint endpoint) {
  const std::vector<Fields> tables = TablesOf(endpoint);
  std::vector<std::string> ignored;
  for (const auto& [name, value] : request.items()) {
    if (value.is_null()) continue;
    const RequestField* field = Find(tables, name);
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

HttpHeaders IgnoredFieldsHeaders(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  std::string list;
  const size_t num_told = std::min(names.size(), kMaxIgnoredNames);
  for (size_t i = 0; i < num_told; ++i) {
    const bool plain = std::ranges::all_of(names[i], [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
    });
    const bool can_be_told = plain && names[i].size() <= kMaxIgnoredNameBytes;
    if (i > 0) list += ", ";
    list += can_be_told ? names[i] : "(another)";
  }
  const size_t num_more = names.size() - num_told;
  if (num_more > 0) list += fmt::format(", ({} more)", num_more);
  return {{"X-Winnow-Ignored-Fields", std::move(list)}};
}

Error WrongField(const std::string& field, std::string_view expected) {
  return MakeError(ErrorCode::kInvalidArgument, "request: field {}: must be {}",
                   Printable(field), expected);
}

}  // namespace winnow
