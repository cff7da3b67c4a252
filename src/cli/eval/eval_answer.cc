#include "cli/eval/eval_answer.h"

#include <algorithm>
#include <utility>

namespace winnow {
namespace {

// How many tokens of `answers` stand in `drawn`: of each that is there whole,
// none in another's place.
int NumFound(const std::vector<AnswerForms>& answers,
             std::vector<int32_t> drawn) {
  constexpr int32_t kTaken = -1;
  int num_found = 0;
  for (const AnswerForms& answer : answers) {
    for (const std::vector<int32_t>& form : answer) {
      const auto at = std::ranges::search(drawn, form);
      if (at.empty()) continue;
      std::ranges::fill(at, kTaken);
      num_found += static_cast<int>(form.size());
      break;
    }
  }
  return num_found;
}

// How many tokens of `answer` were drawn where they stand in it.
int NumInPlace(const std::vector<int32_t>& answer,
               const std::vector<int32_t>& drawn) {
  const size_t count = std::min(answer.size(), drawn.size());
  int num_in_place = 0;
  for (size_t i = 0; i < count; ++i) {
    num_in_place += drawn[i] == answer[i] ? 1 : 0;
  }
  return num_in_place;
}

}  // namespace

EvalAnswer::EvalAnswer(const EvalGroup& group, const EvalQuestion& question,
                       const Tokenizer& tokenizer,
                       std::vector<int32_t> end_token_ids)
    : group_(group),
      question_(question),
      end_token_ids_(std::move(end_token_ids)),
      detokenizer_(tokenizer, /*skip_special_tokens=*/true) {
  outcome_.num_answer_tokens = static_cast<int>(question.answer.size());
}

Request EvalAnswer::RequestBehind(size_t num_told) const {
  Request request;
  request.prompt = group_.prefix;
  const auto append = [&request](auto begin, auto end) {
    request.prompt.insert(request.prompt.end(), begin, end);
  };
  append(question_.tokens.begin(), question_.tokens.end());
  const auto& answer = question_.answer;
  append(answer.begin(), answer.begin() + static_cast<int64_t>(num_told));
  request.num_question_tokens =
      question_.num_question_tokens + static_cast<int>(num_told);
  request.planned_tokens = group_.MaxLength();
  request.sampling.temperature = 0;
  return request;
}

Request EvalAnswer::FreeRequest() const {
  Request request = RequestBehind(0);
  request.max_tokens = question_.max_tokens;
  request.end_token_ids = end_token_ids_;
  return request;
}

Request EvalAnswer::ToldRequest(size_t num_told) const {
  const auto& answer = question_.answer;
  Request request = RequestBehind(num_told);
  request.max_tokens = static_cast<int>(answer.size() - num_told);
  request.forced_tokens.assign(answer.begin() + static_cast<int64_t>(num_told),
                               answer.end() - 1);
  return request;
}

std::array<Request, 2> EvalAnswer::Extremes() const {
  const size_t num_answer = question_.answer.size();
  return {FreeRequest(),
          num_answer > 1 ? ToldRequest(num_answer - 1) : FreeRequest()};
}

std::optional<Request> EvalAnswer::NextRequest() {
  CHECK(!running_);
  const size_t num_answer = question_.answer.size();
  Request request;
  if (stage_ == Stage::kBegin) {
    stage_ = Stage::kFree;
    request = FreeRequest();
  } else if (stage_ == Stage::kFree && num_told_ < num_answer) {
    stage_ = Stage::kTold;
    request = ToldRequest(num_told_);
  } else {
    stage_ = Stage::kEnd;
    return std::nullopt;
  }
  running_ = true;
  num_read_ = static_cast<int>(group_.prefix.size());
  drawn_.clear();
  return request;
}

int64_t EvalAnswer::TakeRows() { return std::exchange(num_rows_, 0); }

void EvalAnswer::OnPrefill(int done, int) {
  num_text_read_ = std::max(
      num_text_read_, std::min(done, static_cast<int>(group_.prefix.size())));
  if (done <= num_read_) return;
  num_rows_ += done - num_read_;
  num_read_ = done;
}

bool EvalAnswer::OnToken(const GeneratedToken& token) {
  has_drawn_ = true;
  // The first draw is of the prompt's last row.
  if (!drawn_.empty()) ++num_rows_;
  drawn_.push_back(token.token_id);
  if (stage_ != Stage::kFree) return true;
  const Result<std::string> piece = detokenizer_.Push(token.token_id);
  if (!piece.ok()) {
    error_ = piece.error();
    return false;
  }
  text_ += *piece;
  // What is right already and stays so whatever follows need not go on.
  return !question_.matcher.more_text_changes_nothing() ||
         drawn_.size() < question_.answer.size() ||
         !question_.matcher.Matches(text_).value();
}

void EvalAnswer::OnFinish(const Completion& completion) {
  running_ = false;
  kv_use_.Add(completion);
  if (!error_ && completion.reason == FinishReason::kError) {
    CHECK(completion.error.has_value());
    error_ = completion.error;
  }
  if (error_ || completion.reason == FinishReason::kCancelled) return;
  if (stage_ == Stage::kFree) {
    EndFree(completion);
  } else {
    EndTold();
  }
}

void EvalAnswer::EndFree(const Completion& completion) {
  const Result<std::string> rest = detokenizer_.Finish();
  if (!rest.ok()) {
    error_ = rest.error();
    return;
  }
  text_ += *rest;
  const Result<bool> matches = question_.matcher.Matches(text_);
  if (!matches.ok()) {
    error_ = matches.error();
    return;
  }
  outcome_.exact = *matches;
  outcome_.num_decode_rows = completion.kv.num_decode_rows;
  outcome_.tokens_read_share = completion.kv.tokens_read_share;
  const auto& answer = question_.answer;
  const size_t num_compared = std::min(answer.size(), drawn_.size());
  outcome_.num_free_right =
      question_.unordered.empty()
          ? NumInPlace(answer, drawn_)
          : std::min(NumFound(question_.unordered, drawn_),
                     outcome_.num_answer_tokens);
  size_t num_agreed = 0;
  while (num_agreed < num_compared &&
         drawn_[num_agreed] == answer[num_agreed]) {
    ++num_agreed;
  }
  outcome_.num_right = static_cast<int>(num_agreed);
  // The draw that went wrong is known; it is told what should have been.
  num_told_ = num_agreed < num_compared ? num_agreed + 1 : num_agreed;
}

void EvalAnswer::EndTold() {
  for (size_t i = 0; i < drawn_.size(); ++i) {
    outcome_.num_right += drawn_[i] == question_.answer[num_told_ + i] ? 1 : 0;
  }
}

}  // namespace winnow
