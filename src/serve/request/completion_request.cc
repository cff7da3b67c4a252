#include "serve/request/completion_request.h"

#include <algorithm>

#include "serve/request/chat_messages.h"
#include "serve/request/messages_request.h"
#include "serve/request/request_grammar.h"
#include "serve/request/request_parts.h"
#include "serve/request/request_ranges.h"
#include "serve/request/responses_request.h"
#include "text/grammar/json_slices.h"

namespace winnow {
namespace {

using nlohmann::json;

constexpr std::string_view kRequest = "request";

Status ReadPrompt(const RequestBody& body, int vocab_size,
                  CompletionRequest& request) {
  const json prompt = body.Value("prompt");
  const IntegerRange ids{0, vocab_size - 1};
  const bool is_list = prompt.is_array() && !prompt.empty();
  if (prompt.is_string()) {
    request.texts.push_back(prompt.get<std::string>());
  } else if (is_list && prompt[0].is_string()) {
    ASSIGN_OR_RETURN(request.texts, body.fields.Texts("prompt"));
  } else if (is_list && prompt[0].is_number()) {
    ASSIGN_OR_RETURN(const auto read, body.fields.Integers("prompt", ids));
    request.token_ids.emplace_back(read.begin(), read.end());
  } else if (is_list && prompt[0].is_array()) {
    for (const json& each : prompt) {
      const bool good = each.is_array() && !each.empty() &&
                        std::ranges::all_of(each, [&](const json& id) {
                          return InRange(id, ids);
                        });
      if (!good) {
        return body.fields.UnexpectedItem(
            "prompt", request.token_ids.size(),
            fmt::format("a list of at least 1 token id in [0, {}], as "
                        "prompt[0] is a list",
                        ids.max));
      }
      request.token_ids.push_back(each.get<std::vector<int32_t>>());
    }
  } else {
    return body.fields.Unexpected("prompt",
                                  "a string, a list of token ids, or a list of "
                                  "one of these");
  }
  const size_t num_prompts = request.texts.size() + request.token_ids.size();
  if (num_prompts > kMaxPrompts) {
    return WrongField("prompt", fmt::format("at most {} prompts, are {}",
                                            kMaxPrompts, num_prompts));
  }
  return Ok{};
}

Status ReadChat(const RequestBody& body, const JsonLimits& limits,
                CompletionRequest& request) {
  if (!body.fields.Has("messages")) {
    return body.fields.Unexpected(
        "messages", fmt::format("a list of 1 to {} messages", kMaxMessages));
  }
  LeftOutKinds left_out;
  ASSIGN_OR_RETURN(
      request.messages_json,
      ChatMessagesJson(MemberOf(body.text, "messages"), limits, left_out));
  AddIgnored(left_out, request);
  ASSIGN_OR_RETURN(const ToolChoice choice,
                   ReadToolChoice(body.Value("tool_choice"), request.endpoint));
  ASSIGN_OR_RETURN(const bool several,
                   body.fields.Flag("parallel_tool_calls", true));
  request.one_call = !several;
  RETURN_IF_ERROR(ReadChatThoughts(body.fields, request.thoughts));
  return ReadToolsAndTemplate(body, choice, request);
}

// Beside a token; none where nobody asked.
Status ReadLogprobs(const JsonFields& fields, CompletionRequest& request) {
  if (request.endpoint == Endpoint::kCompletions) {
    if (!fields.Has("logprobs")) return Ok{};
    ASSIGN_OR_RETURN(const int64_t number,
                     fields.Integer("logprobs", kTopLogprobsRange));
    request.sampling.logprobs = static_cast<int>(number);
    return Ok{};
  }
  ASSIGN_OR_RETURN(const bool wanted, fields.Flag("logprobs", false));
  ASSIGN_OR_RETURN(const int64_t number,
                   fields.Integer("top_logprobs", kTopLogprobsRange, 0));
  if (number > 0 && !wanted) {
    return fields.Unexpected("top_logprobs", "0 unless logprobs is true");
  }
  if (wanted) request.sampling.logprobs = static_cast<int>(number);
  return Ok{};
}

Status ReadLengths(const JsonFields& fields, int max_n,
                   CompletionRequest& request) {
  std::vector<std::string_view> names = {"max_tokens"};
  if (request.endpoint == Endpoint::kChatCompletions) {
    names.push_back("max_completion_tokens");
  }
  for (const std::string_view name : names) {
    if (!fields.Has(name)) continue;
    ASSIGN_OR_RETURN(
        const int64_t number,
        fields.Integer(name, request.echo ? kMinTokensRange : kMaxTokensRange));
    request.max_tokens = static_cast<int>(number);
  }
  ASSIGN_OR_RETURN(const int64_t n, fields.Integer("n", {1, max_n}, 1));
  request.n = static_cast<int>(n);
  return Ok{};
}

Status ReadStreamOptions(const JsonFields& fields, CompletionRequest& request) {
  if (!fields.Has("stream_options")) return Ok{};
  ASSIGN_OR_RETURN(const bool streams, fields.Flag("stream", false));
  if (!streams) {
    return fields.Unexpected("stream_options", "absent unless stream is true");
  }
  ASSIGN_OR_RETURN(const JsonFields options, fields.Object("stream_options"));
  ASSIGN_OR_RETURN(request.include_usage, options.Flag("include_usage", false));
  // vLLM's.
  ASSIGN_OR_RETURN(request.continuous_usage,
                   options.Flag("continuous_usage_stats", false));
  return Ok{};
}

Status ReadWatching(const JsonFields& fields, CompletionRequest& request) {
  if (!fields.Has("winnow")) return Ok{};
  ASSIGN_OR_RETURN(const JsonFields own, fields.Object("winnow"));
  for (const std::string& name : own.Names()) {
    if (name != "picks") return own.Unexpected(name, "absent");
  }
  ASSIGN_OR_RETURN(request.wants_picks, own.Flag("picks", false));
  ASSIGN_OR_RETURN(const bool streams, fields.Flag("stream", false));
  if (request.wants_picks && !streams) {
    return own.Unexpected("picks", "false unless stream is true");
  }
  return Ok{};
}

Status ReadOlderRoutes(const RequestBody& body, const RequestRules& rules,
                       CompletionRequest& request) {
  if (request.endpoint == Endpoint::kChatCompletions) {
    RETURN_IF_ERROR(ReadChat(body, rules.json, request));
  } else {
    RETURN_IF_ERROR(ReadPrompt(body, rules.vocab_size, request));
    ASSIGN_OR_RETURN(request.add_special_tokens,
                     body.fields.Flag("add_special_tokens", true));
    ASSIGN_OR_RETURN(request.echo, body.fields.Flag("echo", false));
  }
  RETURN_IF_ERROR(ReadLengths(body.fields, rules.max_n, request));
  RETURN_IF_ERROR(ReadLogprobs(body.fields, request));
  ASSIGN_OR_RETURN(request.returns_token_ids,
                   body.fields.Flag("return_token_ids", false));
  ASSIGN_OR_RETURN(request.names_tokens_by_id,
                   body.fields.Flag("return_tokens_as_token_ids", false));
  RETURN_IF_ERROR(ReadSampling(body.fields, rules, request));
  RETURN_IF_ERROR(ReadStreamOptions(body.fields, request));
  RETURN_IF_ERROR(ReadWatching(body.fields, request));
  return ReadStops(body, "stop", request);
}

}  // namespace

Result<CompletionRequest> ParseCompletionRequest(std::string_view text,
                                                 Endpoint endpoint,
                                                 const RequestRules& rules) {
  ASSIGN_OR_RETURN(JsonFields fields,
                   JsonFields::Parse(text, std::string(kRequest), rules.json));
  const RequestBody body = {std::move(fields), json::parse(text), text};
  CompletionRequest request;
  request.endpoint = endpoint;
  ASSIGN_OR_RETURN(request.ignored, CheckFields(body.document, endpoint));
  switch (endpoint) {
    case Endpoint::kCompletions:
    case Endpoint::kChatCompletions:
      RETURN_IF_ERROR(ReadOlderRoutes(body, rules, request));
      break;
    case Endpoint::kResponses:
      RETURN_IF_ERROR(ReadResponsesRequest(body, rules, request));
      break;
    case Endpoint::kMessages:
    case Endpoint::kMessageTokens:
      RETURN_IF_ERROR(ReadMessagesRequest(body, rules, request));
      break;
  }
  RETURN_IF_ERROR(ReadGrammar(body, request));
  RETURN_IF_ERROR(ReadDelivery(body.fields, request));
  return request;
}

}  // namespace winnow
