#include "serve/api/http_api.h"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/memory_reserve.h"
#include "serve/answer/completion_json.h"
#include "serve/answer/json_text.h"
#include "serve/answer/logged_answer.h"
#include "serve/answer/messages_json.h"
#include "serve/api/openapi.h"
#include "serve/api/page.h"
#include "serve/http/allowed_host.h"
#include "serve/http/allowed_origin.h"
#include "serve/http/api_key.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxRequestIdBytes = 128;

// As Anthropic's clients read times: RFC 3339.
std::string StartedAt(int64_t unix_s) {
  const auto seconds = static_cast<std::time_t>(unix_s);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
                     parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

// What of a model a page needs to know.
Json WinnowOf(const CompletionService& service, const ServiceParts& parts) {
  const ServiceOptions& options = service.options();
  Json selects = Json::array();
  for (const auto& [name, number] : options.selects) {
    const bool again = std::ranges::find(selects, Json(name)) != selects.end();
    if (!again) selects.push_back(name);
  }
  return {{"selects", std::move(selects)},
          {"chat", parts.chat_template.has_value()},
          {"layers", options.num_layers},
          {"heads", options.num_q_heads},
          {"page_tokens", kPageTokens},
          {"max_watched_requests", options.max_watched_requests}};
}

// What a header and a line may carry as it is.
bool IsRequestId(std::string_view id) {
  return !id.empty() && id.size() <= kMaxRequestIdBytes &&
         std::ranges::all_of(id, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '_' || c == ':' ||
                  c == '-';
         });
}

ApiError LackOfMemory() {
  return {.status = 503,
          .message = "memory does not suffice for the request, for now",
          .headers = {{"Retry-After", "1"}}};
}

ApiError ForeignPage(const HttpRequest& head) {
  const bool has_origin = !head.origin.empty();
  return {.status = 403,
          .message = fmt::format(
              "header {} must be of this server's own page, is {}: those of "
              "others may ask with --allowed-origins ORIGIN",
              has_origin ? "Origin" : "Sec-Fetch-Site",
              Printable(has_origin ? head.origin : head.fetch_site))};
}

// What only tells is kept from a page that may not read it by its browser.
bool OnlyTells(const HttpRequest& head) {
  return head.method == "GET" || head.method == "HEAD" ||
         head.method == "OPTIONS";
}

// HEAD is GET whose answer's body the connection keeps to itself.
std::string_view RoutedMethod(const HttpRequest& head) {
  return head.method == "HEAD" ? "GET" : std::string_view(head.method);
}

// Counted when it is sent: of what nobody waits for any more nothing is.
class CountedAnswer : public WholeAnswer {
 public:
  CountedAnswer(Metrics& metrics, const RequestRecord& record, HttpHead head,
                std::string body)
      : WholeAnswer(std::move(head), std::move(body)),
        metrics_(metrics),
        method_(record.method),
        handler_(record.handler) {}

  HttpPart Take() override {
    HttpPart part = WholeAnswer::Take();
    if (part.head) {
      metrics_.CountAnswer({method_, handler_, part.head->status});
    }
    return part;
  }

 private:
  Metrics& metrics_;
  const std::string method_, handler_;
};

}  // namespace

HttpApi::HttpApi(ApiOptions options, const ServiceParts& parts, RequestLog* log,
                 int num_workers)
    : routes_({{"GET", "/", &HttpApi::Page},
               {"GET", "/health", &HttpApi::Health},
               {"GET", "/ping", &HttpApi::Health},
               {"GET", "/version", &HttpApi::Version},
               {"GET", "/metrics", &HttpApi::MetricsText},
               {"GET", "/openapi.json", &HttpApi::OpenApi},
               {"GET", "/v1/models", &HttpApi::Models},
               {"GET", "/v1/models/{model}", &HttpApi::Models},
               {"POST", "/v1/completions", &HttpApi::Completions},
               {"POST", "/v1/chat/completions", &HttpApi::ChatCompletions},
               {"POST", "/v1/responses", &HttpApi::Responses},
               {"POST", "/v1/messages", &HttpApi::Messages},
               {"POST", "/v1/messages/count_tokens", &HttpApi::CountTokens},
               {"POST", "/tokenize", &HttpApi::Tokenize},
               {"POST", "/detokenize", &HttpApi::Detokenize},
               {"POST", "/v1/embeddings", &HttpApi::Embeddings}}),
      api_key_(std::move(options.api_key)),
      allowed_hosts_(std::move(options.allowed_hosts)),
      allowed_origins_(std::move(options.allowed_origins)),
      version_(std::move(options.version)),
      parts_(parts),
      service_(std::move(options.service), parts),
      log_(log),
      started_unix_s_(std::time(nullptr)),
      openapi_json_(DescribeRoutes()),
      workers_(num_workers,
               static_cast<size_t>(service_.options().max_encoding_bytes)) {}

std::string HttpApi::DescribeRoutes() const {
  std::vector<OpenApiOperation> operations;
  for (const Route& route : routes_) {
    operations.push_back({route.method, route.path});
  }
  const ServiceOptions& options = service_.options();
  OpenApiFacts facts = {.version = version_,
                        .needs_key = !api_key_.empty(),
                        .model_names = options.model_names,
                        .max_n = options.rules.max_n,
                        .vocab_size = options.rules.vocab_size};
  for (const auto& [name, number] : options.selects) {
    facts.selects.push_back(name);
  }
  return DumpJson(OpenApiDocument(operations, facts));
}

const HttpApi::Route* HttpApi::RouteOf(const HttpRequest& head) const {
  const Route* of_another_method = nullptr;
  for (const Route& route : routes_) {
    const size_t brace = route.path.find('{');
    const bool matches =
        brace == std::string_view::npos
            ? head.path == route.path
            : head.path.starts_with(route.path.substr(0, brace));
    if (!matches) continue;
    if (route.method == RoutedMethod(head)) return &route;
    of_another_method = &route;
  }
  return of_another_method;
}

HttpApi::Call HttpApi::CallOf(HttpRequest request) {
  Call call = {std::move(request), std::make_shared<RequestRecord>(),
               draining_};
  const auto since = call.record->arrived - call.arrived;
  call.record->arrived = call.arrived;
  call.record->arrived_at -=
      std::chrono::duration_cast<std::chrono::system_clock::duration>(since);
  call.record->method = Printable(call.method);
  call.record->path = Printable(call.path);
  if (IsAllowedOrigin(call.origin, allowed_origins_)) {
    call.record->allowed_origin = call.origin;
  }
  if (const Route* route = RouteOf(call)) call.record->handler = route->path;
  call.record->id = IsRequestId(call.request_id)
                        ? call.request_id
                        : fmt::format("req_{:016x}{:08x}", service_.id_prefix(),
                                      num_requests_++);
  return call;
}

HttpApi::Reply HttpApi::Logged(const Call& call, Reply answer) {
  return std::make_unique<LoggedAnswer>(std::move(answer), call.record, log_);
}

HttpApi::Reply HttpApi::Refusal(const Call& call, const ApiError& error) {
  call.record->field = error.field;
  const bool anthropic = call.path.starts_with("/v1/messages");
  return std::make_unique<CountedAnswer>(
      parts_.metrics, *call.record,
      HttpHead{.status = error.status, .headers = error.headers},
      anthropic ? MessagesErrorJson(error) : ErrorJson(error));
}

HttpApi::Reply HttpApi::Success(const Call& call, std::string body,
                                HttpHead head) {
  return std::make_unique<CountedAnswer>(parts_.metrics, *call.record,
                                         std::move(head), std::move(body));
}

HttpApi::Reply HttpApi::Refuse(const HttpRequest& head, int status,
                               const std::string& message) {
  const Call call = CallOf(head);
  ApiError error = status == 504
                       ? LateError(message)
                       : ApiError{.status = status, .message = message};
  if (status == 503) error.headers = {{"Retry-After", "1"}};
  return Logged(call, Refusal(call, error));
}

// Anthropic's clients have a header of their own.
bool HttpApi::HasKey(const HttpRequest& head) const {
  return winnow::HasKey(head.authorization, api_key_) ||
         winnow::HasKey("Bearer " + head.api_key, api_key_);
}

HttpApi::Reply HttpApi::RefusalOfHead(const Call& call) {
  if (allowed_hosts_ && !IsAllowedHost(call.host, *allowed_hosts_)) {
    return Refusal(call,
                   {.status = 403,
                    .message = fmt::format(
                        "header Host must name this machine, is {}: others are "
                        "answered with --allowed-host NAME or with --api-key",
                        Printable(call.host))});
  }
  // A browser asks without its page's key.
  const bool is_preflight =
      call.method == "OPTIONS" && !call.record->allowed_origin.empty();
  if (is_preflight) return Preflight(call);
  if (!OnlyTells(call) && IsForeignPage(call, allowed_origins_)) {
    return Refusal(call, ForeignPage(call));
  }
  // A probe has no key, and a page is opened before its reader can give one;
  // they learn nothing but that the server is there.
  const bool open = api_key_.empty() || call.path == "/health" ||
                    call.path == "/ping" || call.path == "/";
  if (!open && !HasKey(call)) {
    return Refusal(call,
                   {.status = 401,
                    .message = "header Authorization must be \"Bearer KEY\", "
                               "or x-api-key KEY, with the server's key",
                    .code = "invalid_api_key",
                    .headers = {{"WWW-Authenticate", "Bearer"}}});
  }
  const Route* route = RouteOf(call);
  if (route == nullptr) {
    return Refusal(call, {.status = 404,
                          .message = "no such path: " + Printable(call.path)});
  }
  if (route->method == RoutedMethod(call)) {
    // What was let in has all of it that there is; a probe needs next to none.
    const bool may_begin = call.method != "POST" || RetakeMemoryReserve();
    return may_begin ? nullptr : Refusal(call, LackOfMemory());
  }
  return Refusal(
      call, {.status = 405,
             .message = fmt::format("method must be {}, is {}", route->method,
                                    Printable(call.method)),
             .headers = {{"Allow", route->method == "GET"
                                       ? "GET, HEAD"
                                       : std::string(route->method)}}});
}

HttpApi::Reply HttpApi::AnswerHead(const HttpRequest& head) {
  const Call call = CallOf(head);
  Reply refusal = RefusalOfHead(call);
  return refusal == nullptr ? nullptr : Logged(call, std::move(refusal));
}

HttpApi::Reply HttpApi::Answer(HttpRequest request) {
  Call call = CallOf(std::move(request));
  const Route* route = RouteOf(call);
  CHECK(route != nullptr, "AnswerHead let {} in", call.path);
  if (route->method == "POST") return Defer(std::move(call), *route);
  return Logged(call, (this->*route->answer)(call));
}

HttpApi::Reply HttpApi::Defer(Call call, const Route& route) {
  const size_t num_bytes = call.body.size();
  const bool is_long = num_bytes > kLongBodyBytes;
  const DeferredAnswer::Records records = {
      .own = call.record,
      .work = std::make_shared<RequestRecord>(*call.record),
      .log = log_};
  Call head;  // Enough to refuse it by.
  head.path = call.path;
  head.record = call.record;
  call.record = records.work;
  Reply lacking = Refusal(head, LackOfMemory());
  auto work = std::make_shared<DeferredWork>(
      [this, &route,
       call = std::make_shared<Call>(std::move(call))](DeferredWork& self) {
        call->work = &self;
        return (this->*route.answer)(*call);
      },
      std::move(lacking));
  // The server's limit holds while it waits for a thread, too.
  if (const auto deadline = service_.DeadlineOf({}, records.own->arrived)) {
    work->SetDeadline(*deadline);
  }
  const WorkerPool::Ticket ticket = workers_.Post(
      is_long ? WorkerPool::Length::kLong : WorkerPool::Length::kShort,
      num_bytes, [work] { work->Run(); });
  work->SetWithdraw([this, ticket] { workers_.Withdraw(ticket); });
  const auto late = [this, head = std::move(head)](const Deadline& deadline) {
    return Refusal(head, LateError(deadline.limit +
                                   " must suffice for the whole answer, is "
                                   "over before its prompt was encoded"));
  };
  return std::make_unique<DeferredAnswer>(std::move(work), late, records);
}

HttpApi::Reply HttpApi::Preflight(const Call& call) {
  return std::make_unique<CountedAnswer>(
      parts_.metrics, *call.record,
      HttpHead{.headers = PreflightHeaders(call.asked_headers)}, "");
}

HttpApi::Reply HttpApi::Page(const Call& call) {
  return std::make_unique<CountedAnswer>(
      parts_.metrics, *call.record,
      HttpHead{.content_type = "text/html; charset=utf-8",
               .headers = PageHeaders()},
      std::string(kPageHtml));
}

HttpApi::Reply HttpApi::Health(const Call& call) {
  if (parts_.loop.healthy()) return Success(call, R"({"status":"ok"})");
  return Refusal(call, {.status = 503, .message = "the device has failed"});
}

HttpApi::Reply HttpApi::Version(const Call& call) {
  return Success(call, DumpJson({{"version", version_}}));
}

HttpApi::Reply HttpApi::MetricsText(const Call& call) {
  return Success(call, parts_.metrics.Text(),
                 {.content_type = "text/plain; version=0.0.4; charset=utf-8"});
}

HttpApi::Reply HttpApi::OpenApi(const Call& call) {
  return Success(call, openapi_json_);
}

HttpApi::Reply HttpApi::Models(const Call& call) {
  constexpr std::string_view kOne = "/v1/models/";
  const std::vector<std::string>& names = service_.options().model_names;
  const int max_tokens = service_.options().max_model_len;
  Json list = Json::array();
  for (const std::string& name : names) {
    // As OpenAI's clients read it, then as Anthropic's do.
    Json model = {{"id", name},
                  {"object", "model"},
                  {"created", started_unix_s_},
                  {"owned_by", "winnow"},
                  {"max_model_len", max_tokens},
                  {"type", "model"},
                  {"display_name", name},
                  {"created_at", StartedAt(started_unix_s_)},
                  {"lifecycle", "active"},
                  {"max_input_tokens", max_tokens},
                  {"winnow", WinnowOf(service_, parts_)}};
    if (call.path == std::string(kOne) + name)
      return Success(call, DumpJson(model));
    list.push_back(std::move(model));
  }
  if (call.path.starts_with(kOne)) {
    return Refusal(call, service_.NoSuchModel(call.path.substr(kOne.size())));
  }
  return Success(call, DumpJson({{"object", "list"},
                                 {"data", std::move(list)},
                                 {"has_more", false},
                                 {"first_id", names.front()},
                                 {"last_id", names.back()}}));
}

HttpApi::Reply HttpApi::Embeddings(const Call& call) {
  return Refusal(
      call,
      {.message = "embeddings are not to be had: the model generates text",
       .code = "unsupported"});
}

HttpApi::Reply HttpApi::Complete(const Call& call, Endpoint endpoint) {
  if (call.is_draining) {
    return Refusal(call, {.status = 503,
                          .message = "the server ends",
                          .headers = {{"Retry-After", "1"}}});
  }
  const Result<CompletionRequest> request =
      ParseCompletionRequest(call.body, endpoint, service_.options().rules);
  if (!request.ok()) return Refusal(call, ApiErrorOf(request.error()));
  const std::optional<Deadline> deadline =
      service_.DeadlineOf(*request, call.record->arrived);
  if (deadline) call.work->SetDeadline(*deadline);
  CompletionService::Started started =
      service_.Start(*request, deadline, call.record, call.work->is_left());
  if (const auto* error = std::get_if<ApiError>(&started)) {
    return Refusal(call, *error);
  }
  return std::get<Reply>(std::move(started));
}

HttpApi::Reply HttpApi::Completions(const Call& call) {
  return Complete(call, Endpoint::kCompletions);
}

HttpApi::Reply HttpApi::ChatCompletions(const Call& call) {
  return Complete(call, Endpoint::kChatCompletions);
}

HttpApi::Reply HttpApi::Responses(const Call& call) {
  return Complete(call, Endpoint::kResponses);
}

HttpApi::Reply HttpApi::Messages(const Call& call) {
  return Complete(call, Endpoint::kMessages);
}

HttpApi::Reply HttpApi::CountTokens(const Call& call) {
  const Result<CompletionRequest> request = ParseCompletionRequest(
      call.body, Endpoint::kMessageTokens, service_.options().rules);
  if (!request.ok()) return Refusal(call, ApiErrorOf(request.error()));
  if (auto error = service_.CheckNames(*request)) return Refusal(call, *error);
  const auto prompts =
      service_.prompts().Encode(*request, call.work->is_left());
  if (!prompts.ok()) return Refusal(call, ApiErrorOf(prompts.error()));
  return Success(call, DumpJson({{"input_tokens", prompts->front().size()}}),
                 {.headers = IgnoredFieldsHeaders(
                      service_.prompts().IgnoredFields(*request))});
}

// A request for a completion, of which only the prompt is read: vLLM's.
HttpApi::Reply HttpApi::Tokenize(const Call& call) {
  const auto fields =
      JsonFields::Parse(call.body, "request", service_.options().rules.json);
  if (!fields.ok()) return Refusal(call, ApiErrorOf(fields.error()));
  const Endpoint endpoint = fields->Has("messages") ? Endpoint::kChatCompletions
                                                    : Endpoint::kCompletions;
  const Result<CompletionRequest> request =
      ParseCompletionRequest(call.body, endpoint, service_.options().rules);
  if (!request.ok()) return Refusal(call, ApiErrorOf(request.error()));
  if (auto error = service_.CheckNames(*request)) return Refusal(call, *error);
  const auto prompts =
      service_.prompts().Encode(*request, call.work->is_left());
  if (!prompts.ok()) return Refusal(call, ApiErrorOf(prompts.error()));
  if (prompts->size() != 1) {
    return Refusal(call,
                   {.message = fmt::format("request: field prompt: must be one "
                                           "prompt, are {}",
                                           prompts->size()),
                    .field = "prompt"});
  }
  return Tokenized(call, *fields, *request, prompts->front());
}

HttpApi::Reply HttpApi::Tokenized(const Call& call, const JsonFields& fields,
                                  const CompletionRequest& request,
                                  const std::vector<int32_t>& tokens) {
  Json told = {{"count", tokens.size()},
               {"max_model_len", service_.options().max_model_len},
               {"tokens", tokens}};
  std::vector<std::string> ignored = service_.prompts().IgnoredFields(request);
  // The same by the server's name and by vLLM's.
  for (const auto& [flag, list] :
       {std::pair("return_pieces", "pieces"),
        std::pair("return_token_strs", "token_strs")}) {
    std::erase(ignored, flag);
    const Result<bool> wanted = fields.Flag(flag, false);
    if (!wanted.ok()) return Refusal(call, ApiErrorOf(wanted.error()));
    if (!*wanted) continue;
    const auto pieces = service_.prompts().Pieces(tokens);
    if (!pieces.ok()) return Refusal(call, ApiErrorOf(pieces.error()));
    told[list] = *pieces;
  }
  return Success(call, DumpJson(told),
                 {.headers = IgnoredFieldsHeaders(ignored)});
}

HttpApi::Reply HttpApi::Detokenize(const Call& call) {
  const auto fields =
      JsonFields::Parse(call.body, "request", service_.options().rules.json);
  if (!fields.ok()) return Refusal(call, ApiErrorOf(fields.error()));
  const auto model = fields->Text("model", "");
  if (!model.ok()) return Refusal(call, ApiErrorOf(model.error()));
  if (auto error = service_.CheckModel(*model)) return Refusal(call, *error);
  if (!fields->Has("tokens")) {
    const Error error = fields->Unexpected("tokens", "a list of token ids");
    return Refusal(call, ApiErrorOf(error));
  }
  const auto tokens =
      fields->Integers("tokens", {0, service_.options().rules.vocab_size - 1});
  if (!tokens.ok()) return Refusal(call, ApiErrorOf(tokens.error()));
  std::vector<std::string> ignored = fields->Names();
  std::erase_if(ignored, [&](const std::string& name) {
    return name == "model" || name == "tokens" || fields->IsNull(name);
  });
  const std::vector<int32_t> ids(tokens->begin(), tokens->end());
  const Result<std::string> text =
      service_.prompts().tokenizer().Decode(ids, /*skip_special_tokens=*/false);
  if (!text.ok()) return Refusal(call, ApiErrorOf(text.error()));
  return Success(call, DumpJson({{"prompt", *text}}),
                 {.headers = IgnoredFieldsHeaders(ignored)});
}

}  // namespace winnow
