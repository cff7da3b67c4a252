#include "bench/bench_questions.h"

#include <algorithm>

#include "cli/command/end_tokens.h"

namespace winnow {

Result<BenchQuestions> BenchQuestions::Read(
    const Model& model, const BenchQuestionsOptions& options) {
  ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Load(options.model_folder));
  const ModelConfig& config = model.config();
  std::vector<int32_t> end_ids = EndTokenIds(config, tokenizer);
  BenchQuestions questions(std::move(tokenizer), std::move(end_ids));
  EvalPlanOptions reading;
  reading.max_model_len =
      static_cast<int>(std::min<int64_t>(config.max_context_tokens, INT32_MAX));
  reading.vocab_size = config.vocab_size;
  reading.limit = options.most_requests;
  ASSIGN_OR_RETURN(EvalPlan plan,
                   ReadEvalPlan({options.file}, questions.tokenizer_, reading));
  if (plan.num_questions() < options.most_requests) {
    return MakeError(
        ErrorCode::kInvalidArgument,
        "{}: must have a line for each of {} requests (--batches), has {}",
        options.file, options.most_requests, plan.num_questions());
  }
  for (EvalGroup& group : plan.groups) {
    for (EvalQuestion& of_group : group.questions) {
      if (std::ssize(of_group.answer) > options.generated_tokens) {
        return MakeError(ErrorCode::kInvalidArgument,
                         "--generate must be the answer's tokens at least ({} "
                         "at {}:{}), is {}",
                         of_group.answer.size(), options.file, of_group.line,
                         options.generated_tokens);
      }
      Question question = {.prompt = group.prefix,
                           .num_question_tokens = of_group.num_question_tokens,
                           .matcher = std::move(of_group.matcher)};
      question.prompt.insert(question.prompt.end(), of_group.tokens.begin(),
                             of_group.tokens.end());
      questions.questions_.push_back(std::move(question));
    }
  }
  return questions;
}

int BenchQuestions::PromptTokens(int batch) const {
  size_t most = 0;
  for (int i = 0; i < batch; ++i) {
    most = std::max(most, questions_[static_cast<size_t>(i)].prompt.size());
  }
  return static_cast<int>(most);
}

std::vector<Request> BenchQuestions::Requests(int batch) const {
  std::vector<Request> requests(static_cast<size_t>(batch));
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = questions_[i].prompt;
    requests[i].num_question_tokens = questions_[i].num_question_tokens;
    requests[i].sampling.temperature = 0;
  }
  return requests;
}

Result<bool> BenchQuestions::IsRight(int index,
                                     std::span<const int32_t> drawn) const {
  const auto end = std::ranges::find_first_of(drawn, end_token_ids_);
  ASSIGN_OR_RETURN(const std::string text,
                   tokenizer_.Decode({drawn.begin(), end},
                                     /*skip_special_tokens=*/true));
  return questions_[static_cast<size_t>(index)].matcher.Matches(text);
}

}  // namespace winnow
