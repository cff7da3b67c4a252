// BenchQuestions: questions of a task file as the requests of a cell.
#ifndef WINNOW_BENCH_BENCH_QUESTIONS_H_
#define WINNOW_BENCH_BENCH_QUESTIONS_H_

#include <span>
#include <string>
#include <vector>

#include "cli/task/eval_plan.h"
#include "engine/request/request.h"
#include "model/forward/model.h"
#include "text/tokenize/tokenizer.h"

namespace winnow {

struct BenchQuestionsOptions {
  std::string file;
  std::string model_folder;  // holds the tokenizer
  int most_requests = 1;     // of any cell
  // Must be at least an answer's length, or none could be right.
  int generated_tokens = 0;
};

// The first lines of a task file; each request of a cell has its own. A
// question's tokens run as decode rows, so that the selector's choices decide
// the answer.
class BenchQuestions {
 public:
  // Fails if the file has too few lines, or a bad one, which the message names.
  static Result<BenchQuestions> Read(const Model& model,
                                     const BenchQuestionsOptions& options);

  // The length of the longest of the first `batch` prompts.
  int PromptTokens(int batch) const;
  // The first `batch` requests: greedy, without an end token.
  std::vector<Request> Requests(int batch) const;
  // True if the tokens of request `index` answer its question.
  Result<bool> IsRight(int index, std::span<const int32_t> drawn) const;

 private:
  struct Question {
    std::vector<int32_t> prompt;
    int num_question_tokens;
    AnswerMatcher matcher;
  };
  BenchQuestions(Tokenizer tokenizer, std::vector<int32_t> end_token_ids)
      : tokenizer_(std::move(tokenizer)),
        end_token_ids_(std::move(end_token_ids)) {}

  Tokenizer tokenizer_;
  std::vector<int32_t> end_token_ids_;
  std::vector<Question> questions_;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_QUESTIONS_H_
