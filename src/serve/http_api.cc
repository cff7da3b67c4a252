#include "serve/http_api.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "serve/api_key.h"
#include "serve/completion_json.h"
#include "serve/json_text.h"
#include "serve/messages_json.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

HttpApi::HttpApi(ApiOptions options, const ServiceParts& parts)
    : routes_({{"GET", "/health", &HttpApi::Health},
               {"GET", "/version", &HttpApi::Version},
               {"GET", "/metrics", &HttpApi::MetricsText},
               {"GET", "/v1/models", &HttpApi::Models},
               {"POST", "/v1/completions", &HttpApi::Completions},
               {"POST", "/v1/chat/completions", &HttpApi::ChatCompletions},
               {"POST", "/v1/responses", &HttpApi::Responses},
               {"POST", "/v1/messages", &HttpApi::Messages},
               {"POST", "/v1/messages/count_tokens", &HttpApi::CountTokens},
               {"POST", "/tokenize", &HttpApi::Tokenize},
               {"POST", "/detokenize", &HttpApi::Detokenize},
               {"POST", "/v1/embeddings", &HttpApi::Embeddings}}),
      api_key_(std::move(options.api_key)),
      version_(std::move(options.version)),
      parts_(parts),
      service_(std::move(options.service), parts),
      started_unix_s_(std::time(nullptr)) {}

HttpApi::Reply HttpApi::Refusal(const HttpRequest& request,
                                const ApiError& error) {
  parts_.metrics.CountAnswer(error.status);
  const bool anthropic = request.path.starts_with("/v1/messages");
  return std::make_unique<WholeAnswer>(
      HttpHead{.status = error.status, .headers = error.headers},
      anthropic ? MessagesErrorJson(error) : ErrorJson(error));
}

HttpApi::Reply HttpApi::Success(std::string body, std::string type) {
  parts_.metrics.CountAnswer(200);
  return std::make_unique<WholeAnswer>(
      HttpHead{.content_type = std::move(type)}, std::move(body));
}

HttpApi::Reply HttpApi::Refuse(const HttpRequest& head, int status,
                               const std::string& message) {
  return Refusal(head, {.status = status, .message = message});
}

// Anthropic's clients have a header of their own.
bool HttpApi::HasKey(const HttpRequest& head) const {
  return winnow::HasKey(head.authorization, api_key_) ||
         winnow::HasKey("Bearer " + head.api_key, api_key_);
}

HttpApi::Reply HttpApi::AnswerHead(const HttpRequest& head) {
  // A probe has no key; it learns nothing but that the server is there.
  const bool open = api_key_.empty() || head.path == "/health";
  if (!open && !HasKey(head)) {
    return Refusal(head,
                   {.status = 401,
                    .message = "header Authorization must be \"Bearer KEY\", "
                               "or x-api-key KEY, with the server's key",
                    .code = "invalid_api_key",
                    .headers = {{"WWW-Authenticate", "Bearer"}}});
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
    return Refusal(head,
                   {.status = 405,
                    .message = fmt::format("method must be {}, is {}", allowed,
                                           Printable(head.method)),
                    .headers = {{"Allow", std::string(allowed)}}});
  }
  return Refusal(head, {.status = 404,
                        .message = "no such path: " + Printable(head.path)});
}

HttpApi::Reply HttpApi::Answer(HttpRequest request) {
  for (const Route& route : routes_) {
    if (route.path == request.path) return (this->*route.answer)(request);
  }
  return Models(request);  // of one
}

HttpApi::Reply HttpApi::Health(const HttpRequest& request) {
  if (parts_.loop.healthy()) return Success(R"({"status":"ok"})");
  return Refusal(request, {.status = 503, .message = "the device has failed"});
}

HttpApi::Reply HttpApi::Version(const HttpRequest&) {
  return Success(DumpJson({{"version", version_}}));
}

HttpApi::Reply HttpApi::MetricsText(const HttpRequest&) {
  return Success(parts_.metrics.Text(),
                 "text/plain; version=0.0.4; charset=utf-8");
}

HttpApi::Reply HttpApi::Models(const HttpRequest& request) {
  constexpr std::string_view kOne = "/v1/models/";
  Json list = Json::array();
  for (const std::string& name : service_.options().model_names) {
    Json model = {{"id", name},
                  {"object", "model"},
                  {"created", started_unix_s_},
                  {"owned_by", "winnow"},
                  {"max_model_len", service_.options().max_model_len}};
    if (request.path == std::string(kOne) + name)
      return Success(DumpJson(model));
    list.push_back(std::move(model));
  }
  if (request.path.starts_with(kOne)) {
    return Refusal(request,
                   *service_.CheckModel(request.path.substr(kOne.size())));
  }
  return Success(DumpJson({{"object", "list"}, {"data", std::move(list)}}));
}

HttpApi::Reply HttpApi::Embeddings(const HttpRequest& request) {
  return Refusal(
      request,
      {.message = "embeddings are not to be had: the model generates text",
       .code = "unsupported"});
}

HttpApi::Reply HttpApi::Complete(const HttpRequest& http, Endpoint endpoint) {
  if (draining_) {
    return Refusal(http, {.status = 503,
                          .message = "the server ends",
                          .headers = {{"Retry-After", "1"}}});
  }
  const Result<CompletionRequest> request =
      ParseCompletionRequest(http.body, endpoint, service_.options().rules);
  if (!request.ok()) return Refusal(http, ApiErrorOf(request.error()));
  CompletionService::Started started = service_.Start(*request);
  if (const auto* error = std::get_if<ApiError>(&started)) {
    return Refusal(http, *error);
  }
  return std::get<Reply>(std::move(started));
}

HttpApi::Reply HttpApi::Completions(const HttpRequest& request) {
  return Complete(request, Endpoint::kCompletions);
}

HttpApi::Reply HttpApi::ChatCompletions(const HttpRequest& request) {
  return Complete(request, Endpoint::kChatCompletions);
}

HttpApi::Reply HttpApi::Responses(const HttpRequest& request) {
  return Complete(request, Endpoint::kResponses);
}

HttpApi::Reply HttpApi::Messages(const HttpRequest& request) {
  return Complete(request, Endpoint::kMessages);
}

HttpApi::Reply HttpApi::CountTokens(const HttpRequest& http) {
  const Result<CompletionRequest> request = ParseCompletionRequest(
      http.body, Endpoint::kMessageTokens, service_.options().rules);
  if (!request.ok()) return Refusal(http, ApiErrorOf(request.error()));
  if (auto error = service_.CheckModel(request->model)) {
    return Refusal(http, *error);
  }
  const auto prompts = service_.Encode(*request);
  if (!prompts.ok()) return Refusal(http, ApiErrorOf(prompts.error()));
  return Success(DumpJson({{"input_tokens", prompts->front().size()}}));
}

// A request for a completion, of which only the prompt is read: vLLM's.
HttpApi::Reply HttpApi::Tokenize(const HttpRequest& http) {
  const auto fields =
      JsonFields::Parse(http.body, "request", service_.options().rules.json);
  if (!fields.ok()) return Refusal(http, ApiErrorOf(fields.error()));
  const Endpoint endpoint = fields->Has("messages") ? Endpoint::kChatCompletions
                                                    : Endpoint::kCompletions;
  const Result<CompletionRequest> request =
      ParseCompletionRequest(http.body, endpoint, service_.options().rules);
  if (!request.ok()) return Refusal(http, ApiErrorOf(request.error()));
  if (auto error = service_.CheckModel(request->model))
    return Refusal(http, *error);
  const auto prompts = service_.Encode(*request);
  if (!prompts.ok()) return Refusal(http, ApiErrorOf(prompts.error()));
  if (prompts->size() != 1) {
    return Refusal(http,
                   {.message = fmt::format("request: field prompt: must be one "
                                           "prompt, are {}",
                                           prompts->size()),
                    .field = "prompt"});
  }
  return Success(DumpJson({{"count", prompts->front().size()},
                           {"max_model_len", service_.options().max_model_len},
                           {"tokens", prompts->front()}}));
}

HttpApi::Reply HttpApi::Detokenize(const HttpRequest& http) {
  const auto fields =
      JsonFields::Parse(http.body, "request", service_.options().rules.json);
  if (!fields.ok()) return Refusal(http, ApiErrorOf(fields.error()));
  const auto tokens =
      fields->Integers("tokens", {0, service_.options().rules.vocab_size - 1});
  if (!tokens.ok()) return Refusal(http, ApiErrorOf(tokens.error()));
  const std::vector<int32_t> ids(tokens->begin(), tokens->end());
  const Result<std::string> text =
      service_.tokenizer().Decode(ids, /*skip_special_tokens=*/false);
  if (!text.ok()) return Refusal(http, ApiErrorOf(text.error()));
  return Success(DumpJson({{"prompt", *text}}));
}

}  // namespace winnow
