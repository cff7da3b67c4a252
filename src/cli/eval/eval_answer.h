// EvalAnswer: one question's way through the engine.
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

// First answers freely. Up to the first wrong token the result with forced
// right tokens is the same, because the rows are the same. From there a second
// request is given the right tokens. Used on the engine's thread.
class EvalAnswer : public RequestObserver {
 public:
  // REQUIRES: group and question outlive this.
  EvalAnswer(const EvalGroup& group, const EvalQuestion& question,
             const Tokenizer& tokenizer, std::vector<int32_t> end_token_ids);

  // The free request and the longest forced one. Resources for these two
  // suffice for every result of NextRequest.
  std::array<Request, 2> Extremes() const;
  // The next request, without its prefix's id; nothing if all is known.
  // REQUIRES: the last request has ended.
  std::optional<Request> NextRequest();
  bool running() const { return running_; }
  // The error, if there is no outcome.
  const std::optional<Error>& error() const { return error_; }
  // Complete but for its seconds once NextRequest has returned nothing; `exact`
  // is set once the first request has ended.
  const EvalOutcome& outcome() const { return outcome_; }
  // Rows behind the group's text that ran since the last call.
  int64_t TakeRows();
  // Tokens of the text that were read, if no prefix has it; and whether the
  // whole first prompt was read.
  int num_text_read() const { return num_text_read_; }
  bool prompt_is_read() const { return stage_ > Stage::kFree || has_drawn_; }
  // Totals of its ended requests.
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
  int num_read_ = 0;  // of the current request's prompt
  int num_text_read_ = 0;
  bool has_drawn_ = false;
  KvUse kv_use_;
  int64_t num_rows_ = 0;
  std::vector<int32_t> drawn_;  // by the current request
  Detokenizer detokenizer_;     // for the free answer
  std::string text_;
  size_t num_told_ = 0;  // answer tokens given to the forced request
  EvalOutcome outcome_;
  std::optional<Error> error_;
};

}  // namespace winnow

#endif  // WINNOW_CLI_EVAL_EVAL_ANSWER_H_
