#include "serve/openai_api.h"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "serve/api_key.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

// What the older interface generates unasked.
constexpr int kDefaultCompletionTokens = 16;
constexpr size_t kMaxIgnoredNames = 16;

std::string Dump(const Json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false,
                    Json::error_handler_t::replace);
}

uint64_t RandomNumber() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

// Names that a header may carry.
std::string HeaderListOf(const std::vector<std::string>& names) {
  std::string list;
  for (size_t i = 0; i < names.size() && i < kMaxIgnoredNames; ++i) {
    const bool plain = std::ranges::all_of(names[i], [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '-';
    });
    if (!list.empty()) list += ", ";
    list += plain && names[i].size() <= 64 ? names[i] : "(another)";
  }
  return list;
}

// Two numbers to one that neither gives away: SplitMix64 (Steele, Lea and
// Flood, 2014, figure 17).
uint64_t SeedOf(uint64_t seed, uint64_t number) {
  uint64_t mixed = seed + 0x9E3779B97F4A7C15u * (number + 1);
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
  return mixed ^ (mixed >> 31);
}

}  // namespace

OpenAiApi::OpenAiApi(ApiOptions options, const ApiParts& parts)
    : routes_({{"GET", "/health", &OpenAiApi::Health},
               {"GET", "/version", &OpenAiApi::Version},
               {"GET", "/metrics", &OpenAiApi::MetricsText},
               {"GET", "/v1/models", &OpenAiApi::Models},
               {"POST", "/v1/completions", &OpenAiApi::Completions},
               {"POST", "/v1/chat/completions", &OpenAiApi::ChatCompletions},
               {"POST", "/tokenize", &OpenAiApi::Tokenize},
               {"POST", "/detokenize", &OpenAiApi::Detokenize},
               {"POST", "/v1/embeddings", &OpenAiApi::Embeddings}}),
      options_(std::move(options)),
      parts_(parts),
      started_unix_s_(std::time(nullptr)),
      id_prefix_(RandomNumber()) {
  CHECK(!options_.model_names.empty() && !options_.selects.empty());
}

OpenAiApi::Reply OpenAiApi::Refusal(const ApiError& error,
                                    HttpHeaders headers) {
  parts_.metrics.CountAnswer(error.status);
  return std::make_unique<WholeAnswer>(
      HttpHead{.status = error.status, .headers = std::move(headers)},
      ErrorJson(error));
}

OpenAiApi::Reply OpenAiApi::Refusal(const Error& error) {
  ApiError shown = {.message = error.message,
                    .field = FieldNamedIn(error.message)};
  if (error.code == ErrorCode::kIo) shown.status = 503;
  return Refusal(shown);
}

OpenAiApi::Reply OpenAiApi::Success(std::string body, std::string type) {
  parts_.metrics.CountAnswer(200);
  return std::make_unique<WholeAnswer>(
      HttpHead{.content_type = std::move(type)}, std::move(body));
}

OpenAiApi::Reply OpenAiApi::Refuse(int status, const std::string& message) {
  return Refusal({.status = status, .message = message});
}

OpenAiApi::Reply OpenAiApi::AnswerHead(const HttpRequest& head) {
  // A probe has no key; it learns nothing but that the server is there.
  const bool open = options_.api_key.empty() || head.path == "/health";
  if (!open && !HasKey(head.authorization, options_.api_key)) {
    return Refusal({.status = 401,
                    .message = "header Authorization must be \"Bearer KEY\" "
                               "with the server's key",
                    .code = "invalid_api_key"},
                   {{"WWW-Authenticate", "Bearer"}});
  }
  std::string_view allowed;
  for (const Route& route : routes_) {
    const bool one_model =
        route.path == "/v1/models" && head.path.starts_with("/v1/models/");
    if (route.path != head.path && !one_model) continue;
    if (route.method == head.method) return nullptr;
    allowed = route.method;
  }
  if (!allowed.empty()) {
    return Refusal({.status = 405,
                    .message = fmt::format("method must be {}, is {}", allowed,
                                           Printable(head.method))},
                   {{"Allow", std::string(allowed)}});
  }
  return Refusal(
      {.status = 404, .message = "no such path: " + Printable(head.path)});
}

OpenAiApi::Reply OpenAiApi::Answer(HttpRequest request) {
  for (const Route& route : routes_) {
    if (route.path == request.path) return (this->*route.answer)(request);
  }
  return Models(request);  // of one
}

OpenAiApi::Reply OpenAiApi::Health(const HttpRequest&) {
  if (parts_.loop.healthy()) return Success(R"({"status":"ok"})");
  return Refusal({.status = 503, .message = "the device has failed"});
}

OpenAiApi::Reply OpenAiApi::Version(const HttpRequest&) {
  return Success(Dump({{"version", options_.version}}));
}

OpenAiApi::Reply OpenAiApi::MetricsText(const HttpRequest&) {
  return Success(parts_.metrics.Text(),
                 "text/plain; version=0.0.4; charset=utf-8");
}

OpenAiApi::Reply OpenAiApi::Models(const HttpRequest& request) {
  constexpr std::string_view kOne = "/v1/models/";
  Json list = Json::array();
  for (const std::string& name : options_.model_names) {
    Json model = {{"id", name},
                  {"object", "model"},
                  {"created", started_unix_s_},
                  {"owned_by", "winnow"},
                  {"max_model_len", options_.max_model_len}};
    if (request.path == std::string(kOne) + name) return Success(Dump(model));
    list.push_back(std::move(model));
  }
  if (request.path.starts_with(kOne)) {
    return Refusal(*CheckModel(request.path.substr(kOne.size())));
  }
  return Success(Dump({{"object", "list"}, {"data", std::move(list)}}));
}

OpenAiApi::Reply OpenAiApi::Embeddings(const HttpRequest&) {
  return Refusal(
      {.message = "embeddings are not to be had: the model generates text",
       .code = "unsupported"});
}

std::optional<ApiError> OpenAiApi::CheckModel(const std::string& model) const {
  if (model.empty() || std::ranges::find(options_.model_names, model) !=
                           options_.model_names.end()) {
    return std::nullopt;
  }
  return ApiError{
      .status = 404,
      .message = fmt::format("model must be \"{}\", is \"{}\"",
                             options_.model_names.front(), Printable(model)),
      .field = "model",
      .code = "model_not_found"};
}

Result<int> OpenAiApi::SelectorFor(const std::string& select) const {
  if (select.empty()) return options_.selects.front().second;
  std::string offered;
  for (const auto& [name, number] : options_.selects) {
    if (name == select) return number;
    offered += (offered.empty() ? "\"" : ", \"") + name + "\"";
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "request: field select: must be one that the server was "
                   "started with ({}), is \"{}\"",
                   offered, Printable(select));
}

Result<std::vector<std::vector<int32_t>>> OpenAiApi::Encode(
    const CompletionRequest& request) const {
  if (!request.token_ids.empty()) return request.token_ids;
  std::vector<std::string> texts = request.texts;
  if (request.endpoint == Endpoint::kChatCompletions) {
    if (!parts_.chat_template) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "the model has no chat template: --chat-template FILE "
                       "gives the server one, or ask /v1/completions");
    }
    ChatInput input;
    input.messages_json = request.messages_json;
    input.extra_json = request.template_json;
    input.now_unix_s = std::time(nullptr);
    input.add_generation_prompt = request.add_generation_prompt;
    Result<std::string> text = parts_.chat_template->Render(input);
    if (!text.ok()) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "request: field messages: {}", text.error().message);
    }
    texts = {*std::move(text)};
  }
  std::vector<std::vector<int32_t>> prompts;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(prompts.emplace_back(),
                     parts_.tokenizer.Encode(text, request.add_special_tokens));
  }
  return prompts;
}

int OpenAiApi::MaxTokens(const CompletionRequest& request,
                         size_t prompt_length) const {
  if (request.max_tokens) return *request.max_tokens;
  if (request.endpoint == Endpoint::kCompletions) {
    return kDefaultCompletionTokens;
  }
  // The last token is never fed back.
  const int left = options_.max_model_len - static_cast<int>(prompt_length) + 1;
  return std::clamp(left, 1, options_.default_max_tokens);
}

std::optional<ApiError> OpenAiApi::CheckLengths(
    const CompletionRequest& request,
    const std::vector<std::vector<int32_t>>& prompts) const {
  const bool is_chat = request.endpoint == Endpoint::kChatCompletions;
  const std::string field = is_chat ? "messages" : "prompt";
  for (const std::vector<int32_t>& prompt : prompts) {
    if (prompt.empty()) {
      return ApiError{.message = fmt::format("request: field {}: must have at "
                                             "least 1 token, has 0",
                                             field),
                      .field = field};
    }
    const int64_t length = std::ssize(prompt);
    const int64_t max_tokens =
        length > options_.max_model_len ? 1 : MaxTokens(request, prompt.size());
    if (length + max_tokens - 1 > options_.max_model_len) {
      return ApiError{
          .message = fmt::format(
              "request: field {}: its tokens and max_tokens must fit the "
              "context of {} (--max-model-len), are {} and {}",
              field, options_.max_model_len, length, max_tokens),
          .field = field,
          .code = "context_length_exceeded"};
    }
  }
  return std::nullopt;
}

AnswerForm OpenAiApi::FormOf(const CompletionRequest& request,
                             uint64_t number) const {
  const bool is_chat = request.endpoint == Endpoint::kChatCompletions;
  AnswerForm form = {
      .identity = {.endpoint = request.endpoint,
                   .id = fmt::format("{}-{:016x}{:08x}",
                                     is_chat ? "chatcmpl" : "cmpl", id_prefix_,
                                     number),
                   .model = request.model.empty() ? options_.model_names.front()
                                                  : request.model,
                   .created_unix_s = std::time(nullptr)},
      .stream = request.stream,
      .include_usage = request.include_usage,
      .with_logprobs = request.sampling.logprobs.has_value(),
      .answers_per_prompt = request.n};
  if (!request.ignored.empty()) {
    form.headers.emplace_back("X-Winnow-Ignored-Fields",
                              HeaderListOf(request.ignored));
  }
  return form;
}

Request OpenAiApi::RequestFor(const CompletionRequest& request,
                              const std::vector<int32_t>& prompt,
                              int selector) const {
  Request asked;
  asked.prompt = prompt;
  asked.max_tokens = MaxTokens(request, prompt.size());
  if (!request.ignore_eos) {
    asked.end_token_ids = options_.rules.defaults.eos_token_ids;
  }
  asked.end_token_ids.insert(asked.end_token_ids.end(),
                             request.stop_token_ids.begin(),
                             request.stop_token_ids.end());
  asked.sampling = request.sampling;
  asked.selector = selector;
  asked.cache_salt = request.cache_salt;
  return asked;
}

OpenAiApi::Reply OpenAiApi::Submit(
    const CompletionRequest& request,
    const std::vector<std::vector<int32_t>>& prompts, int selector) {
  const uint64_t number = num_answers_++;
  const uint64_t seed = request.seed.value_or(SeedOf(options_.seed, number));
  AnswerForm form = FormOf(request, number);
  std::vector<Submission> submissions;
  std::vector<AnswerSource> sources;
  for (const std::vector<int32_t>& prompt : prompts) {
    form.num_prompt_tokens += std::ssize(prompt);
    for (int i = 0; i < request.n; ++i) {
      Request asked = RequestFor(request, prompt, selector);
      asked.sampling.seed = seed + static_cast<uint64_t>(i);
      Result<StopMatcher> stops = StopMatcher::Create(request.stop);
      if (!stops.ok()) return Refusal(stops.error());
      auto feed = std::make_shared<TokenFeed>(parts_.metrics);
      sources.push_back(
          {.feed = feed,
           .text = AnswerText(
               Detokenizer(parts_.tokenizer, request.skip_special_tokens),
               *std::move(stops))});
      submissions.push_back({std::move(asked), std::move(feed)});
    }
  }
  const Result<std::vector<Ticket>> tickets =
      parts_.loop.Submit(std::move(submissions));
  if (!tickets.ok()) {
    const bool full = tickets.error().code == ErrorCode::kResourceExhausted;
    return Refusal(
        {.status = full ? 429 : 503, .message = tickets.error().message},
        {{"Retry-After", "1"}});
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    sources[i].ticket = (*tickets)[i];
  }
  return std::make_unique<CompletionAnswer>(
      std::move(form), std::move(sources),
      [&loop = parts_.loop](Ticket ticket) { loop.Cancel(ticket); },
      parts_.tokenizer, parts_.metrics);
}

OpenAiApi::Reply OpenAiApi::Complete(const HttpRequest& http,
                                     Endpoint endpoint) {
  if (draining_) {
    return Refusal({.status = 503, .message = "the server ends"},
                   {{"Retry-After", "1"}});
  }
  const Result<CompletionRequest> request =
      ParseCompletionRequest(http.body, endpoint, options_.rules);
  if (!request.ok()) return Refusal(request.error());
  if (auto error = CheckModel(request->model)) return Refusal(*error);
  const Result<int> selector = SelectorFor(request->select);
  if (!selector.ok()) return Refusal(selector.error());
  const auto prompts = Encode(*request);
  if (!prompts.ok()) return Refusal(prompts.error());
  if (auto error = CheckLengths(*request, *prompts)) return Refusal(*error);
  return Submit(*request, *prompts, *selector);
}

OpenAiApi::Reply OpenAiApi::Completions(const HttpRequest& request) {
  return Complete(request, Endpoint::kCompletions);
}

OpenAiApi::Reply OpenAiApi::ChatCompletions(const HttpRequest& request) {
  return Complete(request, Endpoint::kChatCompletions);
}

// A request for a completion, of which only the prompt is read: vLLM's.
OpenAiApi::Reply OpenAiApi::Tokenize(const HttpRequest& http) {
  const auto fields =
      JsonFields::Parse(http.body, "request", options_.rules.json);
  if (!fields.ok()) return Refusal(fields.error());
  const Endpoint endpoint = fields->Has("messages") ? Endpoint::kChatCompletions
                                                    : Endpoint::kCompletions;
  const Result<CompletionRequest> request =
      ParseCompletionRequest(http.body, endpoint, options_.rules);
  if (!request.ok()) return Refusal(request.error());
  if (auto error = CheckModel(request->model)) return Refusal(*error);
  const auto prompts = Encode(*request);
  if (!prompts.ok()) return Refusal(prompts.error());
  if (prompts->size() != 1) {
    return Refusal({.message = fmt::format("request: field prompt: must be one "
                                           "prompt, are {}",
                                           prompts->size()),
                    .field = "prompt"});
  }
  return Success(Dump({{"count", prompts->front().size()},
                       {"max_model_len", options_.max_model_len},
                       {"tokens", prompts->front()}}));
}

OpenAiApi::Reply OpenAiApi::Detokenize(const HttpRequest& http) {
  const auto fields =
      JsonFields::Parse(http.body, "request", options_.rules.json);
  if (!fields.ok()) return Refusal(fields.error());
  const auto tokens =
      fields->Integers("tokens", {0, options_.rules.vocab_size - 1});
  if (!tokens.ok()) return Refusal(tokens.error());
  const std::vector<int32_t> ids(tokens->begin(), tokens->end());
  const Result<std::string> text =
      parts_.tokenizer.Decode(ids, /*skip_special_tokens=*/false);
  if (!text.ok()) return Refusal(text.error());
  return Success(Dump({{"prompt", *text}}));
}

}  // namespace winnow
