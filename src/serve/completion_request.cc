#include "serve/completion_request.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "engine/request.h"
#include "text/stop_matcher.h"

namespace winnow {
namespace {

using nlohmann::json;

constexpr std::string_view kRequest = "request";
constexpr size_t kMaxPrompts = 256;
constexpr size_t kMaxMessages = 16 << 10;

// A body as both of its readers want it: fields by type, and as it nests.
struct Body {
  JsonFields fields;
  json document;
};

Error Wrong(const std::string& field, std::string_view expected) {
  return MakeError(ErrorCode::kInvalidArgument, "request: field {}: must be {}",
                   field, expected);
}

Status ReadPrompt(const Body& body, int vocab_size,
                  CompletionRequest& request) {
  const json prompt = body.document.value("prompt", json());
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
      std::vector<int32_t>& tokens = request.token_ids.emplace_back();
      for (const json& id : each) {
        const bool good = each.is_array() && id.is_number_unsigned() &&
                          id.get<uint64_t>() <= static_cast<uint64_t>(ids.max);
        if (!good) {
          return Wrong("prompt",
                       fmt::format("lists of token ids in [0, {}]", ids.max));
        }
        tokens.push_back(id.get<int32_t>());
      }
      if (tokens.empty()) return Wrong("prompt", "lists of at least 1 token");
    }
  } else {
    return body.fields.Unexpected("prompt",
                                  "a string, a list of token ids, or a list of "
                                  "one of these");
  }
  const size_t num_prompts = request.texts.size() + request.token_ids.size();
  if (num_prompts > kMaxPrompts) {
    return Wrong("prompt", fmt::format("at most {} prompts, are {}",
                                       kMaxPrompts, num_prompts));
  }
  return Ok{};
}

// Text, or parts that are text, put together; nothing where there is none.
Result<json> ContentOf(const json& content, const std::string& field) {
  if (content.is_string() || content.is_null()) return content;
  if (!content.is_array()) return Wrong(field, "a string or a list of parts");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const json& part = content[i];
    const std::string name = fmt::format("{}[{}]", field, i);
    if (!part.is_object() || part.value("type", json()) != "text") {
      return Wrong(name + ".type", "\"text\": the model reads text alone");
    }
    const json piece = part.value("text", json());
    if (!piece.is_string()) return Wrong(name + ".text", "a string");
    text += piece.get<std::string>();
  }
  return json(std::move(text));
}

Result<json> MessageOf(const json& given, const std::string& field) {
  if (!given.is_object()) return Wrong(field, "an object");
  json message = given;
  const json role = given.value("role", json());
  // Newer clients call so what templates know as the system's.
  if (role == "developer") message["role"] = "system";
  constexpr std::string_view kRoles[] = {"system", "developer", "user",
                                         "assistant", "tool"};
  const bool known =
      role.is_string() &&
      std::ranges::find(kRoles, role.get<std::string>()) != std::end(kRoles);
  if (!known) {
    return Wrong(field + ".role",
                 "\"system\", \"developer\", \"user\", \"assistant\" or "
                 "\"tool\"");
  }
  ASSIGN_OR_RETURN(message["content"], ContentOf(given.value("content", json()),
                                                 field + ".content"));
  const bool may_lack = role == "assistant" && given.contains("tool_calls");
  if (message["content"].is_null() && !may_lack) {
    return Wrong(field + ".content", "a string or a list of parts, is missing");
  }
  return message;
}

Status ReadMessages(const Body& body, CompletionRequest& request) {
  const json given = body.document.value("messages", json());
  if (!given.is_array() || given.empty() || given.size() > kMaxMessages) {
    return body.fields.Unexpected(
        "messages", fmt::format("a list of 1 to {} messages", kMaxMessages));
  }
  json messages = json::array();
  for (size_t i = 0; i < given.size(); ++i) {
    ASSIGN_OR_RETURN(json message,
                     MessageOf(given[i], fmt::format("messages[{}]", i)));
    messages.push_back(std::move(message));
  }
  request.messages_json = messages.dump();
  if (body.fields.Has("chat_template_kwargs")) {
    ASSIGN_OR_RETURN(const JsonFields checked,
                     body.fields.Object("chat_template_kwargs"));
    (void)checked;  // It is an object: that is all to know of it.
    request.template_json = body.document["chat_template_kwargs"].dump();
  }
  ASSIGN_OR_RETURN(request.add_generation_prompt,
                   body.fields.Flag("add_generation_prompt", true));
  ASSIGN_OR_RETURN(request.add_special_tokens,
                   body.fields.Flag("add_special_tokens", false));
  return Ok{};
}

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
        entry.token_id >= vocab_size) {
      return biases.Unexpected(
          name, fmt::format("named by a token id in [0, {}]", vocab_size - 1));
    }
    ASSIGN_OR_RETURN(const double bias, biases.Number(name, {-100, 100}));
    entry.bias = static_cast<float>(bias);
    sampling.logit_bias.push_back(entry);
  }
  return Ok{};
}

// Beside a token; none where nobody asked.
Status ReadLogprobs(const JsonFields& fields, CompletionRequest& request) {
  const IntegerRange range{0, kMaxTopLogprobs};
  if (request.endpoint == Endpoint::kCompletions) {
    if (!fields.Has("logprobs")) return Ok{};
    ASSIGN_OR_RETURN(const int64_t number, fields.Integer("logprobs", range));
    request.sampling.logprobs = static_cast<int>(number);
    return Ok{};
  }
  ASSIGN_OR_RETURN(const bool wanted, fields.Flag("logprobs", false));
  ASSIGN_OR_RETURN(const int64_t number,
                   fields.Integer("top_logprobs", range, 0));
  if (number > 0 && !wanted) {
    return fields.Unexpected("top_logprobs", "0 unless logprobs is true");
  }
  if (wanted) request.sampling.logprobs = static_cast<int>(number);
  return Ok{};
}

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
  const NumberRange share{0, 1}, penalty{-2, 2};
  RETURN_IF_ERROR(number("temperature",
                         {kTemperatures.least, kTemperatures.most},
                         Or(defaults.temperature, 1), &sampling.temperature));
  RETURN_IF_ERROR(
      number("top_p", share, Or(defaults.top_p, 1), &sampling.top_p));
  RETURN_IF_ERROR(
      number("min_p", share, Or(defaults.min_p, 0), &sampling.min_p));
  RETURN_IF_ERROR(
      number("presence_penalty", penalty, 0, &sampling.presence_penalty));
  RETURN_IF_ERROR(
      number("frequency_penalty", penalty, 0, &sampling.frequency_penalty));
  RETURN_IF_ERROR(
      number("repetition_penalty",
             {kRepetitionPenalties.least, kRepetitionPenalties.most},
             Or(defaults.repetition_penalty, 1), &sampling.repetition_penalty));
  ASSIGN_OR_RETURN(
      const int64_t top_k,
      fields.Integer("top_k", {-1, INT32_MAX}, defaults.top_k.value_or(0)));
  sampling.top_k = static_cast<int>(std::max<int64_t>(top_k, 0));
  if (fields.Has("seed")) {
    ASSIGN_OR_RETURN(const int64_t seed,
                     fields.Integer("seed", {INT64_MIN, INT64_MAX}));
    request.seed = static_cast<uint64_t>(seed);
  }
  RETURN_IF_ERROR(ReadBias(fields, rules.vocab_size, sampling));
  return ReadLogprobs(fields, request);
}

Status ReadStops(const Body& body, int vocab_size, CompletionRequest& request) {
  const JsonFields& fields = body.fields;
  if (body.document.value("stop", json()).is_string()) {
    ASSIGN_OR_RETURN(std::string stop, fields.Text("stop"));
    request.stop.push_back(std::move(stop));
  } else {
    ASSIGN_OR_RETURN(request.stop, fields.Texts("stop"));
  }
  // What it says of a stop string is what it must be: see StopMatcher.
  const Result<StopMatcher> stops = StopMatcher::Create(request.stop);
  if (!stops.ok()) {
    return MakeError(ErrorCode::kInvalidArgument, "request: field {}",
                     stops.error().message);
  }
  ASSIGN_OR_RETURN(const auto ids,
                   fields.Integers("stop_token_ids", {0, vocab_size - 1}));
  request.stop_token_ids.assign(ids.begin(), ids.end());
  ASSIGN_OR_RETURN(request.ignore_eos, fields.Flag("ignore_eos", false));
  ASSIGN_OR_RETURN(request.skip_special_tokens,
                   fields.Flag("skip_special_tokens", true));
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
    ASSIGN_OR_RETURN(const int64_t number,
                     fields.Integer(name, {1, INT32_MAX}));
    request.max_tokens = static_cast<int>(number);
  }
  ASSIGN_OR_RETURN(const int64_t n, fields.Integer("n", {1, max_n}, 1));
  request.n = static_cast<int>(n);
  return Ok{};
}

Status ReadDelivery(const JsonFields& fields, CompletionRequest& request) {
  ASSIGN_OR_RETURN(request.model, fields.Text("model", ""));
  ASSIGN_OR_RETURN(request.select, fields.Text("select", ""));
  ASSIGN_OR_RETURN(request.cache_salt, fields.Text("cache_salt", ""));
  if (request.cache_salt.size() > kMaxCacheSaltBytes) {
    return fields.Unexpected(
        "cache_salt", fmt::format("at most {} bytes", kMaxCacheSaltBytes));
  }
  ASSIGN_OR_RETURN(request.stream, fields.Flag("stream", false));
  if (!fields.Has("stream_options")) return Ok{};
  if (!request.stream) {
    return fields.Unexpected("stream_options", "absent unless stream is true");
  }
  ASSIGN_OR_RETURN(const JsonFields options, fields.Object("stream_options"));
  ASSIGN_OR_RETURN(request.include_usage, options.Flag("include_usage", false));
  return Ok{};
}

}  // namespace

Result<CompletionRequest> ParseCompletionRequest(std::string_view text,
                                                 Endpoint endpoint,
                                                 const RequestRules& rules) {
  ASSIGN_OR_RETURN(JsonFields fields,
                   JsonFields::Parse(text, std::string(kRequest), rules.json));
  const Body body = {std::move(fields), json::parse(text)};
  CompletionRequest request;
  request.endpoint = endpoint;
  ASSIGN_OR_RETURN(request.ignored, CheckFields(body.document, endpoint));
  if (endpoint == Endpoint::kChatCompletions) {
    RETURN_IF_ERROR(ReadMessages(body, request));
  } else {
    RETURN_IF_ERROR(ReadPrompt(body, rules.vocab_size, request));
    ASSIGN_OR_RETURN(request.add_special_tokens,
                     body.fields.Flag("add_special_tokens", true));
  }
  RETURN_IF_ERROR(ReadLengths(body.fields, rules.max_n, request));
  RETURN_IF_ERROR(ReadSampling(body.fields, rules, request));
  RETURN_IF_ERROR(ReadStops(body, rules.vocab_size, request));
  RETURN_IF_ERROR(ReadDelivery(body.fields, request));
  return request;
}

std::string FieldNamedIn(std::string_view message) {
  constexpr std::string_view kBegin = "request: field ";
  if (!message.starts_with(kBegin)) return {};
  message.remove_prefix(kBegin.size());
  return std::string(message.substr(0, message.find(':')));
}

}  // namespace winnow
