#include "serve/request/request_parts.h"

#include <algorithm>
#include <charconv>

#include "engine/request/request.h"
#include "serve/request/request_ranges.h"
#include "text/grammar/json_slices.h"
#include "text/tokenize/stop_matcher.h"

namespace winnow {
namespace {

using nlohmann::json;

template <typename T>
double Or(const std::optional<T>& checkpoint, double otherwise) {
  return checkpoint ? static_cast<double>(*checkpoint) : otherwise;
}

Status ReadBias(const JsonFields& fields, int vocab_size,
                SamplingParams& sampling) {
  if (!fields.Has("logit_bias")) return Ok{};
  ASSIGN_OR_RETURN(const JsonFields biases, fields.Object("logit_bias"));
  for (const std::string& name : biases.Names()) {
    TokenBias entry;
    const char* end = name.data() + name.size();
    const auto [stop, error] =
        std::from_chars(name.data(), end, entry.token_id);
    if (error != std::errc() || stop != end || entry.token_id < 0 ||
        entry.token_id >= vocab_size ||
        name != fmt::to_string(entry.token_id)) {
      return biases.Unexpected(
          name, fmt::format("named by a token id in [0, {}]", vocab_size - 1));
    }
    ASSIGN_OR_RETURN(const double bias, biases.Number(name, kBiasRange));
    entry.bias = static_cast<float>(bias);
    sampling.logit_bias.push_back(entry);
  }
  return Ok{};
}

Status ReadBadWords(const JsonFields& fields, CompletionRequest& request) {
  ASSIGN_OR_RETURN(request.bad_words, fields.Texts("bad_words"));
  if (request.bad_words.size() > kMaxBadWords) {
    return fields.Unexpected("bad_words",
                             fmt::format("at most {} words", kMaxBadWords));
  }
  for (size_t i = 0; i < request.bad_words.size(); ++i) {
    const std::string& word = request.bad_words[i];
    const bool says_any = word.find_first_not_of(' ') != std::string::npos;
    if (says_any && word.size() <= kMaxBadWordBytes) continue;
    return fields.UnexpectedItem(
        "bad_words", i,
        fmt::format("1 to {} bytes, not all spaces", kMaxBadWordBytes));
  }
  return Ok{};
}

// The members of an object as they were written, but for those of one name. A
// model reads their order.
std::string MembersWithout(std::string_view object, std::string_view without) {
  std::string text;
  for (const auto& [name, value] : MembersOf(object)) {
    const std::string written = fmt::format("{{\"{}\":0}}", name);
    if (!without.empty() && MemberOf(written, without) == "0") continue;
    text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", name, value);
  }
  return text;
}

// `tools`: none where no calls are wanted.
Status ReadTemplate(const RequestBody& body, ToolList tools,
                    CompletionRequest& request) {
  std::string_view variables = "{}";
  if (body.fields.Has("chat_template_kwargs")) {
    ASSIGN_OR_RETURN(const JsonFields checked,
                     body.fields.Object("chat_template_kwargs"));
    (void)checked;  // It is an object: that is all to know of it.
    variables = MemberOf(body.text, "chat_template_kwargs");
  }
  ASSIGN_OR_RETURN(request.continues_message,
                   body.fields.Flag("continue_final_message", false));
  ASSIGN_OR_RETURN(
      request.add_generation_prompt,
      body.fields.Flag("add_generation_prompt", !request.continues_message));
  if (request.continues_message && request.add_generation_prompt) {
    return body.fields.Unexpected("continue_final_message",
                                  "false where add_generation_prompt is true");
  }
  ASSIGN_OR_RETURN(request.add_special_tokens,
                   body.fields.Flag("add_special_tokens", false));
  const std::string told = tools.Json();
  std::string& text = request.template_json;
  text = MembersWithout(variables, told.empty() ? "" : "tools");
  if (told.empty()) {
    text = "{" + text + "}";
    return Ok{};
  }
  const bool is_strict = tools.strict();
  text =
      fmt::format("{{{}{}\"tools\":{}}}", text, text.empty() ? "" : ",", told);
  for (ToldTool& each : tools.tools) {
    request.tools.push_back(std::move(each.tool));
  }
  if (is_strict && request.forced_tools.empty()) {
    request.ignored.emplace_back("strict");
  }
  return Ok{};
}

}  // namespace

Status ReadSampling(const JsonFields& fields, const RequestRules& rules,
                    CompletionRequest& request) {
  const GenerationDefaults& defaults = rules.defaults;
  SamplingParams& sampling = request.sampling;
  const auto number = [&fields](std::string_view name, NumberRange range,
                                double otherwise, float* value) -> Status {
    ASSIGN_OR_RETURN(const double read, fields.Number(name, range, otherwise));
    *value = static_cast<float>(read);
    return Ok{};
  };
  RETURN_IF_ERROR(number("temperature", kTemperatureRange,
                         Or(defaults.temperature, 1), &sampling.temperature));
  RETURN_IF_ERROR(
      number("top_p", kShareRange, Or(defaults.top_p, 1), &sampling.top_p));
  RETURN_IF_ERROR(
      number("min_p", kShareRange, Or(defaults.min_p, 0), &sampling.min_p));
  RETURN_IF_ERROR(
      number("presence_penalty", kPenaltyRange, 0, &sampling.presence_penalty));
  RETURN_IF_ERROR(number("frequency_penalty", kPenaltyRange, 0,
                         &sampling.frequency_penalty));
  RETURN_IF_ERROR(number("repetition_penalty", kRepetitionPenaltyRange,
                         Or(defaults.repetition_penalty, 1),
                         &sampling.repetition_penalty));
  ASSIGN_OR_RETURN(
      const int64_t top_k,
      fields.Integer("top_k", kTopKRange, defaults.top_k.value_or(0)));
  sampling.top_k = static_cast<int>(std::max<int64_t>(top_k, 0));
  if (fields.Has("seed")) {
    ASSIGN_OR_RETURN(const int64_t seed, fields.Integer("seed", kSeedRange));
    request.seed = static_cast<uint64_t>(seed);
  }
  const IntegerRange ids{0, rules.vocab_size - 1};
  ASSIGN_OR_RETURN(const auto ends, fields.Integers("stop_token_ids", ids));
  request.stop_token_ids.assign(ends.begin(), ends.end());
  ASSIGN_OR_RETURN(request.ignore_eos, fields.Flag("ignore_eos", false));
  ASSIGN_OR_RETURN(const int64_t least,
                   fields.Integer("min_tokens", kMinTokensRange, 0));
  request.min_tokens = static_cast<int>(least);
  ASSIGN_OR_RETURN(const auto allowed,
                   fields.Integers("allowed_token_ids", ids));
  if (fields.Has("allowed_token_ids") && allowed.empty()) {
    return fields.Unexpected("allowed_token_ids", "at least one id");
  }
  request.allowed_token_ids.assign(allowed.begin(), allowed.end());
  RETURN_IF_ERROR(ReadBadWords(fields, request));
  ASSIGN_OR_RETURN(request.skip_special_tokens,
                   fields.Flag("skip_special_tokens", true));
  ASSIGN_OR_RETURN(request.keeps_stops,
                   fields.Flag("include_stop_str_in_output", false));
  return ReadBias(fields, rules.vocab_size, sampling);
}

Status ReadStops(const RequestBody& body, const char* name,
                 CompletionRequest& request) {
  if (body.Value(name).is_string()) {
    ASSIGN_OR_RETURN(std::string stop, body.fields.Text(name));
    request.stop.push_back(std::move(stop));
  } else {
    ASSIGN_OR_RETURN(request.stop, body.fields.Texts(name));
  }
  const Result<StopMatcher> stops = StopMatcher::Create(request.stop);
  if (stops.ok()) return Ok{};
  // "stop[0]: ...": of the list, whatever the field's name.
  constexpr std::string_view kList = "stop";
  return MakeError(ErrorCode::kInvalidArgument, "request: field {}{}", name,
                   stops.error().message.substr(kList.size()));
}

Status ReadDelivery(const JsonFields& fields, CompletionRequest& request) {
  ASSIGN_OR_RETURN(request.model, fields.Text("model", ""));
  ASSIGN_OR_RETURN(request.select, fields.Text("select", ""));
  ASSIGN_OR_RETURN(request.cache_salt, fields.Text("cache_salt", ""));
  if (request.cache_salt.size() > kMaxCacheSaltBytes) {
    return fields.Unexpected(
        "cache_salt", fmt::format("at most {} bytes", kMaxCacheSaltBytes));
  }
  ASSIGN_OR_RETURN(const int64_t priority,
                   fields.Integer("priority", kPriorityRange, 0));
  request.priority = static_cast<int>(priority);
  if (fields.Has("timeout")) {
    ASSIGN_OR_RETURN(request.timeout_s,
                     fields.Number("timeout", kTimeoutRange));
  }
  ASSIGN_OR_RETURN(request.stream, fields.Flag("stream", false));
  return Ok{};
}

void AddIgnored(const LeftOutKinds& left_out, CompletionRequest& request) {
  request.ignored.insert(request.ignored.end(), left_out.names().begin(),
                         left_out.names().end());
}

Status ReadToolsAndTemplate(const RequestBody& body, const ToolChoice& choice,
                            CompletionRequest& request) {
  ASSIGN_OR_RETURN(ToolList tools,
                   ReadTools(body.Value("tools"), MemberOf(body.text, "tools"),
                             request.endpoint));
  RETURN_IF_ERROR(KeepAllowed(choice, tools));
  ASSIGN_OR_RETURN(request.forced_tools, ForcedTools(choice, tools));
  AddIgnored(tools.left_out, request);
  AddIgnored(choice.left_out, request);
  if (!choice.any) tools = {};
  return ReadTemplate(body, std::move(tools), request);
}

}  // namespace winnow
