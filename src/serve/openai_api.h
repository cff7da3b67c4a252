// OpenAiApi: OpenAI's interface over an EngineLoop.
#ifndef WINNOW_SERVE_OPENAI_API_H_
#define WINNOW_SERVE_OPENAI_API_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/completion_answer.h"
#include "serve/completion_request.h"
#include "serve/engine_loop.h"
#include "serve/http_message.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace winnow {

struct ApiOptions {
  std::vector<std::string> model_names;  // the first names it in answers
  std::string api_key;                   // empty: everyone may ask
  std::string version;
  int max_model_len = 0;
  int default_max_tokens = 0;  // of a chat that does not say
  uint64_t seed = 0;           // of requests without one
  RequestRules rules;
  // What a request may ask for in `select`, and the engine's number for it; the
  // first is what it gets unasked.
  std::vector<std::pair<std::string, int>> selects;
};

// What it answers with, all owned by the command.
struct ApiParts {
  const Tokenizer& tokenizer;
  const std::optional<ChatTemplate>& chat_template;  // none: no chat
  EngineLoop& loop;
  Metrics& metrics;
};

// Owns nothing that changes but counts; any thread. Text is encoded on the
// thread that asks. With a key, everything but /health needs it.
class OpenAiApi : public HttpHandler {
 public:
  // REQUIRES: the parts outlive this.
  OpenAiApi(ApiOptions options, const ApiParts& parts);

  std::unique_ptr<HttpAnswer> AnswerHead(const HttpRequest& head) override;
  std::unique_ptr<HttpAnswer> Answer(HttpRequest request) override;
  std::unique_ptr<HttpAnswer> Refuse(int status,
                                     const std::string& message) override;
  // From now on new completions are refused (503): the server ends.
  void Drain() { draining_ = true; }

 private:
  using Reply = std::unique_ptr<HttpAnswer>;
  struct Route {
    std::string_view method;
    std::string_view path;
    Reply (OpenAiApi::*answer)(const HttpRequest& request);
  };

  Reply Health(const HttpRequest& request);
  Reply Version(const HttpRequest& request);
  Reply MetricsText(const HttpRequest& request);
  Reply Models(const HttpRequest& request);
  Reply Completions(const HttpRequest& request);
  Reply ChatCompletions(const HttpRequest& request);
  Reply Tokenize(const HttpRequest& request);
  Reply Detokenize(const HttpRequest& request);
  Reply Embeddings(const HttpRequest& request);

  Reply Complete(const HttpRequest& request, Endpoint endpoint);
  Result<std::vector<std::vector<int32_t>>> Encode(
      const CompletionRequest& request) const;
  std::optional<ApiError> CheckModel(const std::string& model) const;
  std::optional<ApiError> CheckLengths(
      const CompletionRequest& request,
      const std::vector<std::vector<int32_t>>& prompts) const;
  int MaxTokens(const CompletionRequest& request, size_t prompt_length) const;
  Result<int> SelectorFor(const std::string& select) const;
  AnswerForm FormOf(const CompletionRequest& request, uint64_t number) const;
  // But for its seed.
  Request RequestFor(const CompletionRequest& request,
                     const std::vector<int32_t>& prompt, int selector) const;
  Reply Submit(const CompletionRequest& request,
               const std::vector<std::vector<int32_t>>& prompts, int selector);
  Reply Refusal(const ApiError& error, HttpHeaders headers = {});
  Reply Refusal(const Error& error);
  Reply Success(std::string body, std::string type = "application/json");

  const std::vector<Route> routes_;
  const ApiOptions options_;
  const ApiParts parts_;
  const int64_t started_unix_s_;
  const uint64_t id_prefix_;  // of this process' answers
  std::atomic<uint64_t> num_answers_ = 0;
  std::atomic<bool> draining_ = false;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_OPENAI_API_H_
