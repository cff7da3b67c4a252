// CompletionService: starts the answer to a parsed request.
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
  std::vector<std::string> model_names;  // answers use the first
  int max_model_len = 0;
  // The limit of a chat or response without one of its own.
  int default_max_tokens = 0;
  double max_request_s = 0;  // from arrival to end; 0: no limit
  int64_t max_encoding_bytes = int64_t{32} << 20;  // of a request's texts
  uint64_t seed = 0;                               // of requests without one
  bool splits_thoughts = true;  // if the template shows the tags of thoughts
  RequestRules rules;
  GrammarLimits grammars;
  // The values of the field `select` and the engine's number of each. The first
  // is the default.
  std::vector<std::pair<std::string, int>> selects;
  int num_layers = 0;  // of the model
  int num_q_heads = 0;
  int max_watched_requests = 0;  // at the same time
};

// The parts that it uses, all owned by the command.
struct ServiceParts {
  const Tokenizer& tokenizer;
  const std::optional<ChatTemplate>& chat_template;  // none: no chat
  EngineLoop& loop;
  Metrics& metrics;
};

// Serves all routes. Routes differ in the parser of the request and the form of
// the answer (AnswerStyle). Its only mutable state are counts and
// AnswerGrammars; any thread.
class CompletionService {
 public:
  using Started = std::variant<std::unique_ptr<HttpAnswer>, ApiError>;

  // REQUIRES: the parts outlive this.
  CompletionService(ServiceOptions options, const ServiceParts& parts);

  // The request's deadline; nothing without a limit.
  std::optional<Deadline> DeadlineOf(const CompletionRequest& request,
                                     Sequence::Clock::time_point arrived) const;
  // Fills in the record. Once `is_left` is set, skips the rest and returns an
  // answer that is not sent.
  Started Start(const CompletionRequest& request,
                const std::optional<Deadline>& deadline,
                std::shared_ptr<RequestRecord> record,
                const std::atomic<bool>& is_left);
  // The error for an unknown model's name; "" is unknown too.
  ApiError NoSuchModel(std::string_view model) const;
  // The error if `model` is neither one of the server's nor empty.
  std::optional<ApiError> CheckModel(const std::string& model) const;
  // As CheckModel, and for the field `select`.
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
  // `unheld`: fields that the grammar does not enforce.
  AnswerForm FormOf(const CompletionRequest& request,
                    std::span<const std::string> unheld, uint64_t number) const;
  // A prompt, and the state at the beginning of its answers.
  struct PreparedPrompt {
    std::vector<int32_t> token_ids;
    Detokenizer text;                  // at the answer's beginning
    std::optional<EchoedPrompt> echo;  // set if requested
    // Set if the answer is constrained.
    std::optional<GrammarMatcher> matcher = {};
  };
  // True if the answer continues the prompt's text.
  static bool GoesOn(const CompletionRequest& request, const Detokenizer& text);
  Result<PreparedPrompt> PreparePrompt(const CompletionRequest& request,
                                       std::vector<int32_t> token_ids,
                                       const std::string& text) const;
  // Returns the fields that no prompt's grammar enforces.
  Result<std::vector<std::string>> CompileGrammars(
      const CompletionRequest& request, std::vector<PreparedPrompt>& prompts);
  // The results of the checks before the engine is called.
  struct Prepared {
    std::vector<PreparedPrompt> prompts;
    int selector = -1;
    std::optional<Deadline> deadline;
    std::vector<std::string> unheld;  // fields that no grammar enforces
    std::optional<ThoughtSplitter>
        thoughts;  // none: thoughts are not separated
    std::vector<std::vector<int32_t>> banned_words;
  };
  // Without its seed.
  Request RequestFor(const CompletionRequest& request, const Prepared& prepared,
                     const PreparedPrompt& prompt) const;
  Started Submit(const CompletionRequest& request, const Prepared& prepared,
                 std::shared_ptr<RequestRecord> record);

  const ServiceOptions options_;
  const ServiceParts parts_;
  const PromptEncoder prompts_;
  AnswerGrammars grammars_;
  const uint64_t id_prefix_;  // of this process's answers
  std::atomic<uint64_t> num_answers_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_API_COMPLETION_SERVICE_H_
