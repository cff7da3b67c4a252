// CompletionService: from what a client asks for to the answer on its way.
#ifndef WINNOW_SERVE_API_COMPLETION_SERVICE_H_
#define WINNOW_SERVE_API_COMPLETION_SERVICE_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "serve/answer/answer_grammars.h"
#include "serve/answer/completion_answer.h"
#include "serve/api/prompt_encoder.h"
#include "serve/http/http_message.h"
#include "serve/loop/engine_loop.h"
#include "serve/request/completion_request.h"
#include "text/chat_template.h"
#include "text/grammar/grammar.h"
#include "text/tokenize/tokenizer.h"

namespace winnow {

struct ServiceOptions {
  std::vector<std::string> model_names;  // the first names it in answers
  int max_model_len = 0;
  int default_max_tokens = 0;  // of a chat or response that does not say
  double max_request_s = 0;    // from arrival to end; 0: no end
  int64_t max_encoding_bytes = int64_t{32} << 20;  // of a request's texts
  uint64_t seed = 0;                               // of requests without one
  bool splits_thoughts = true;  // where the template shows the tags of some
  RequestRules rules;
  GrammarLimits grammars;
  // What a request may ask for in `select`, and the engine's number for it; the
  // first is what it gets unasked.
  std::vector<std::pair<std::string, int>> selects;
  int num_layers = 0;  // of the model
  int num_q_heads = 0;
  int max_watched_requests = 0;  // at once
};

// What it works with, all owned by the command.
struct ServiceParts {
  const Tokenizer& tokenizer;
  const std::optional<ChatTemplate>& chat_template;  // none: no chat
  EngineLoop& loop;
  Metrics& metrics;
};

// The same for every route: routes differ in how a request is read and in how
// its answer is told (AnswerStyle). Owns nothing that changes but counts, and
// what AnswerGrammars has; any thread.
class CompletionService {
 public:
  using Started = std::variant<std::unique_ptr<HttpAnswer>, ApiError>;

  // REQUIRES: the parts outlive this.
  CompletionService(ServiceOptions options, const ServiceParts& parts);

  // Nothing where it may take as long as it takes.
  std::optional<Deadline> DeadlineOf(const CompletionRequest& request,
                                     Sequence::Clock::time_point arrived) const;
  // The record hears what is to be said of it. Once nobody waits for it, the
  // rest is not done, and what it returns is for nobody.
  Started Start(const CompletionRequest& request,
                const std::optional<Deadline>& deadline,
                std::shared_ptr<RequestRecord> record,
                const std::atomic<bool>& is_left);
  // What a client is told that names another model; "" is one too.
  ApiError NoSuchModel(std::string_view model) const;
  // That it is one of the server's, or not named.
  std::optional<ApiError> CheckModel(const std::string& model) const;
  // The same, and what it selects.
  std::optional<ApiError> CheckNames(const CompletionRequest& request) const;

  const ServiceOptions& options() const { return options_; }
  // A number that no other process has, for ids.
  uint64_t id_prefix() const { return id_prefix_; }
  const PromptEncoder& prompts() const { return prompts_; }

 private:
  std::optional<ApiError> CheckLengths(
      const CompletionRequest& request,
      const PromptEncoder::Prompts& prompts) const;
  int MaxTokens(const CompletionRequest& request, size_t prompt_length) const;
  Result<int> SelectorFor(const std::string& select) const;
  // `unheld`: fields that its grammar does not follow.
  AnswerForm FormOf(const CompletionRequest& request,
                    std::span<const std::string> unheld, uint64_t number) const;
  // A prompt, and what its answers begin with.
  struct PreparedPrompt {
    std::vector<int32_t> token_ids;
    Detokenizer text;                            // at the answer's beginning
    std::optional<EchoedPrompt> echo;            // where it was asked for
    std::optional<GrammarMatcher> matcher = {};  // likewise
  };
  // Whether the answer goes on behind the prompt's text.
  static bool GoesOn(const CompletionRequest& request, const Detokenizer& text);
  Result<PreparedPrompt> PreparePrompt(const CompletionRequest& request,
                                       std::vector<int32_t> token_ids,
                                       const std::string& text) const;
  // Fields that no prompt's grammar follows.
  Result<std::vector<std::string>> CompileGrammars(
      const CompletionRequest& request, std::vector<PreparedPrompt>& prompts);
  // What is found before the engine is asked.
  struct Prepared {
    std::vector<PreparedPrompt> prompts;
    int selector = -1;
    std::optional<Deadline> deadline;
    std::vector<std::string> unheld;          // fields that no grammar follows
    std::optional<ThoughtSplitter> thoughts;  // none: none are told apart
    std::vector<std::vector<int32_t>> banned_words;
  };
  // But for its seed.
  Request RequestFor(const CompletionRequest& request, const Prepared& prepared,
                     const PreparedPrompt& prompt) const;
  Started Submit(const CompletionRequest& request, const Prepared& prepared,
                 std::shared_ptr<RequestRecord> record);

  const ServiceOptions options_;
  const ServiceParts parts_;
  const PromptEncoder prompts_;
  AnswerGrammars grammars_;
  const uint64_t id_prefix_;  // of this process' answers
  std::atomic<uint64_t> num_answers_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_API_COMPLETION_SERVICE_H_
