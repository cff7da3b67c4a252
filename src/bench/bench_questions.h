// Questions of a task file as the requests of a cell.
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
  std::string model_folder;  // of the tokenizer
  int most_requests = 1;     // of any cell
  // Fewer than an answer has would leave none right.
  int generated_tokens = 0;
};

// The first lines of a task file, of which each request of a cell has its own:
// a question's tokens are fed as decode rows, so that what is chosen answers
// it.
class BenchQuestions {
 public:
  // Fails where the file has not as many lines, or a bad one, which is named.
  static Result<BenchQuestions> Read(const Model& model,
                                     const BenchQuestionsOptions& options);

  // Of the longest of the first `batch` prompts.
  int PromptTokens(int batch) const;
  // Those of the first `batch`: greedy, without an end.
  std::vector<Request> Requests(int batch) const;
  // Whether what request `index` has drawn answers its question.
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
