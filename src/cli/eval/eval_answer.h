// One question's way through the engine.
#ifndef WINNOW_CLI_EVAL_EVAL_ANSWER_H_
#define WINNOW_CLI_EVAL_EVAL_ANSWER_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "cli/command/kv_use.h"
#include "cli/eval/eval_table.h"
#include "cli/task/eval_plan.h"
#include "engine/request/request.h"
#include "text/tokenize/detokenizer.h"

namespace winnow {

// Answers freely first. Up to its first wrong token that is also what an answer
// would be that is told the right tokens (the rows are the same); from there on
// a second request is told them. Used on the engine's thread.
class EvalAnswer : public RequestObserver {
 public:
  // REQUIRES: group and question outlive this.
  EvalAnswer(const EvalGroup& group, const EvalQuestion& question,
             const Tokenizer& tokenizer, std::vector<int32_t> end_token_ids);

  // The one that answers freely, and the last that may be told: what these two
  // need suffices for whatever NextRequest returns.
  std::array<Request, 2> Extremes() const;
  // What is to run next, without its prefix's id; nothing where all is known.
  // REQUIRES: the last one has ended.
  std::optional<Request> NextRequest();
  bool running() const { return running_; }
  // Why there is no outcome, if there is none.
  const std::optional<Error>& error() const { return error_; }
  // All but its seconds, once NextRequest has returned nothing; `exact` as soon
  // as the first request has ended.
  const EvalOutcome& outcome() const { return outcome_; }
  // Rows behind the group's text that ran since the last call.
  int64_t TakeRows();
  // How much of the text is read, where no prefix has it, and whether all of
  // the first prompt is.
  int num_text_read() const { return num_text_read_; }
  bool prompt_is_read() const { return stage_ > Stage::kFree || has_drawn_; }
  // What its requests were counted so far, those that have ended.
  const KvUse& kv_use() const { return kv_use_; }

  void OnPrefill(int done, int total) override;
  bool OnToken(const GeneratedToken& token) override;
  void OnFinish(const Completion& completion) override;

 private:
  enum class Stage { kBegin, kFree, kTold, kEnd };
  Request FreeRequest() const;
  Request ToldRequest(size_t num_told) const;
  Request RequestBehind(size_t num_told) const;
  void EndFree(const Completion& completion);
  void EndTold();

  const EvalGroup& group_;
  const EvalQuestion& question_;
  const std::vector<int32_t> end_token_ids_;
  Stage stage_ = Stage::kBegin;
  bool running_ = false;
  int num_read_ = 0;  // of the prompt of the request that runs
  int num_text_read_ = 0;
  bool has_drawn_ = false;
  KvUse kv_use_;
  int64_t num_rows_ = 0;
  std::vector<int32_t> drawn_;  // by the request that runs
  Detokenizer detokenizer_;     // of the free answer
  std::string text_;
  size_t num_told_ = 0;  // answer tokens in front of the told request's draws
  EvalOutcome outcome_;
  std::optional<Error> error_;
};

}  // namespace winnow

#endif  // WINNOW_CLI_EVAL_EVAL_ANSWER_H_
