// Generation: turns one prompt's tokens into text that may be shown.
#ifndef WINNOW_CLI_GENERATE_GENERATION_H_
#define WINNOW_CLI_GENERATE_GENERATION_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/generate/batch_progress.h"
#include "engine/request/request.h"
#include "text/tokenize/answer_text.h"

namespace winnow {

// Collects the engine's results for one request, and passes text on as soon as
// it is certain. Used on the engine's thread. tokens() and completion() are the
// engine's; text() is cut before a stop string.
class Generation : public RequestObserver {
 public:
  // Called with each piece of text.
  using ShowText = std::function<void(std::string_view)>;

  // Reports to `batch` as its prompt number `prompt`. REQUIRES: `batch`
  // outlives this.
  Generation(AnswerText answer, ShowText show_text, BatchProgress& batch,
             size_t prompt);

  void OnPrefill(int done, int total) override;
  bool OnToken(const GeneratedToken& token) override;
  void OnFinish(const Completion& completion) override;

  bool finished() const { return finished_; }
  const std::string& text() const { return text_; }
  const std::vector<GeneratedToken>& tokens() const { return tokens_; }
  const Completion& completion() const { return completion_; }

 private:
  // False if the answer cannot go on.
  bool Show(const Result<std::string>& certain);

  AnswerText answer_;
  ShowText show_text_;
  BatchProgress& batch_;
  const size_t prompt_;
  std::vector<GeneratedToken> tokens_;
  std::string text_;
  Completion completion_;
  std::optional<Error> error_;  // of the detokenizer
  bool finished_ = false;
};

}  // namespace winnow

#endif  // WINNOW_CLI_GENERATE_GENERATION_H_
