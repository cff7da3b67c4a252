#include "cli/eval/eval_answer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "cli/command/golden_tokenizers.h"

namespace winnow {
namespace {

using Ids = std::vector<int32_t>;

// Plays the engine: what is drawn is given.
class EvalAnswerTest : public testing::Test {
 protected:
  EvalAnswerTest() {
    for (const char* letter : {"w", "q", "x", "z"}) {
      right_.push_back(tokenizer_.IdOf(letter).value());
    }
    other_ = tokenizer_.IdOf("k").value();
    group_.prefix = {5, 6, 7};
    group_.questions.push_back(
        {.line = 1,
         .task = "t",
         .matcher = AnswerMatcher::Create({.answers = {"wq", "z"}}).value(),
         .tokens = {8, 9},
         .num_question_tokens = 2,
         .answer = right_,
         .max_tokens = 20});
  }

  EvalAnswer Answer() {
    return EvalAnswer(group_, group_.questions[0], tokenizer_, {0});
  }

  // Draws until the answer wants no more; returns how many it took.
  static size_t Play(EvalAnswer& answer, const Ids& draws,
                     const Request& request) {
    answer.OnPrefill(static_cast<int>(request.prompt.size()),
                     static_cast<int>(request.prompt.size()));
    size_t num_drawn = 0;
    for (const int32_t id : draws) {
      ++num_drawn;
      if (!answer.OnToken({.token_id = id, .top = {}})) break;
    }
    Completion completion;
    completion.kv.num_decode_rows = 9;
    completion.kv.tokens_read_share = 0.25;
    answer.OnFinish(completion);
    return num_drawn;
  }

  Tokenizer tokenizer_ = Tokenizer::Load(kTokenizer).value();
  Ids right_;
  int32_t other_ = 0;
  EvalGroup group_;
};

TEST_F(EvalAnswerTest, RowsOfTheTextAreNotTheAnswers) {
  EvalAnswer answer = Answer();
  const Request request = answer.NextRequest().value();
  EXPECT_EQ(request.planned_tokens, group_.MaxLength());
  answer.OnPrefill(2, 5);
  EXPECT_EQ(answer.TakeRows(), 0);
  EXPECT_EQ(answer.num_text_read(), 2);
  answer.OnPrefill(5, 5);
  EXPECT_EQ(answer.TakeRows(), 2);
  EXPECT_EQ(answer.num_text_read(), 3);
  EXPECT_FALSE(answer.prompt_is_read());
  answer.OnToken({.token_id = right_[0], .top = {}});
  EXPECT_TRUE(answer.prompt_is_read());
}

// Whatever is drawn, no request needs more than one of these two.
TEST_F(EvalAnswerTest, ExtremesAreWhatItMayAsk) {
  EvalAnswer answer = Answer();
  const auto [freely, told] = answer.Extremes();
  EXPECT_EQ(answer.NextRequest()->prompt, freely.prompt);
  EXPECT_EQ(freely.max_tokens, 20);
  Ids longest = freely.prompt;
  longest.insert(longest.end(), right_.begin(), right_.end() - 1);
  EXPECT_EQ(told.prompt, longest);
  EXPECT_EQ(told.max_tokens, 1);
  EXPECT_TRUE(told.forced_tokens.empty());
}

TEST_F(EvalAnswerTest, ARightAnswerIsAskedOnceAndStopsWhereItIsRight) {
  EvalAnswer answer = Answer();
  const Request request = answer.NextRequest().value();
  EXPECT_EQ(request.prompt, (Ids{5, 6, 7, 8, 9}));
  EXPECT_EQ(request.num_question_tokens, 2);
  EXPECT_EQ(request.max_tokens, 20);
  EXPECT_EQ(request.sampling.temperature, 0);
  EXPECT_EQ(request.end_token_ids, Ids{0});
  Ids draws = right_;
  draws.push_back(other_);
  EXPECT_EQ(Play(answer, draws, request), 4u);
  EXPECT_EQ(answer.TakeRows(), 2 + 3);
  EXPECT_EQ(answer.TakeRows(), 0);
  EXPECT_FALSE(answer.NextRequest().has_value());
  const EvalOutcome want = {.exact = true,
                            .num_answer_tokens = 4,
                            .num_right = 4,
                            .num_free_right = 4,
                            .num_decode_rows = 9,
                            .tokens_read_share = 0.25};
  EXPECT_EQ(answer.outcome(), want);
}

TEST_F(EvalAnswerTest, AWrongTokenIsToldAndTheRestDrawnBehindIt) {
  EvalAnswer answer = Answer();
  // Right, wrong, right by luck, wrong; then it ends.
  const Ids draws = {right_[0], other_, right_[2], other_, 0};
  Play(answer, draws, answer.NextRequest().value());
  const Request told = answer.NextRequest().value();
  EXPECT_EQ(told.prompt, (Ids{5, 6, 7, 8, 9, right_[0], right_[1]}));
  EXPECT_EQ(told.num_question_tokens, 4);
  EXPECT_EQ(told.max_tokens, 2);
  EXPECT_EQ(told.forced_tokens, Ids{right_[2]});
  EXPECT_TRUE(told.end_token_ids.empty());
  Play(answer, {right_[2], right_[3]}, told);
  EXPECT_FALSE(answer.NextRequest().has_value());
  EXPECT_FALSE(answer.outcome().exact);
  EXPECT_EQ(answer.outcome().num_free_right, 2);
  EXPECT_EQ(answer.outcome().num_right, 3);
}

TEST_F(EvalAnswerTest, AnAnswerThatEndsEarlyIsToldTheRest) {
  group_.questions[0].max_tokens = 2;
  EvalAnswer answer = Answer();
  Play(answer, {right_[0], right_[1]}, answer.NextRequest().value());
  const Request told = answer.NextRequest().value();
  EXPECT_EQ(told.prompt.size(), 7u);
  EXPECT_EQ(told.max_tokens, 2);
  Play(answer, {other_, right_[3]}, told);
  EXPECT_EQ(answer.outcome().num_right, 3);
  EXPECT_EQ(answer.outcome().num_free_right, 2);
}

TEST_F(EvalAnswerTest, AnswersInAnyOrderAreRightWhereverTheyStand) {
  const auto num_free_right = [this](const Ids& draws) {
    EvalAnswer answer = Answer();
    Play(answer, draws, answer.NextRequest().value());
    return answer.outcome().num_free_right;
  };
  const int32_t w = right_[0], q = right_[1], x = right_[2], z = right_[3];
  group_.questions[0].matcher =
      AnswerMatcher::Create(
          {.rule = MatchRule::kExact, .answers = {"wq", "xz"}})
          .value();
  EXPECT_EQ(num_free_right({x, z, w, q, 0}), 0);
  group_.questions[0].unordered = {{Ids{w, q}, Ids{w, q}},
                                   {Ids{x, z}, Ids{x, z}}};
  EXPECT_EQ(num_free_right({x, z, w, q, 0}), 4);
  EXPECT_EQ(num_free_right({other_, x, z, w, other_, 0}), 2);
  EXPECT_EQ(num_free_right({q, w, z, x, 0}), 0);
  // Each place is one answer's.
  group_.questions[0].unordered = {{Ids{w, q}, Ids{w, q}},
                                   {Ids{w, q}, Ids{w, q}}};
  EXPECT_EQ(num_free_right({x, z, w, q, 0}), 2);
  group_.questions[0].unordered = {{Ids{x, z, w}, Ids{x, z, w}},
                                   {Ids{z, w}, Ids{z, w}}};
  EXPECT_EQ(num_free_right({x, z, w, q, 0}), 3);
  // The first one may be spelled otherwise than those behind it.
  group_.questions[0].unordered = {{Ids{w, other_}, Ids{w, q}},
                                   {Ids{x, other_}, Ids{x, z}}};
  EXPECT_EQ(num_free_right({x, other_, w, q, 0}), 4);
  EXPECT_EQ(num_free_right({w, other_, x, z, 0}), 4);
}

TEST_F(EvalAnswerTest, OnlyTheLastTokenWrongNeedsNoSecondRequest) {
  EvalAnswer answer = Answer();
  Play(answer, {right_[0], right_[1], right_[2], other_, 0},
       answer.NextRequest().value());
  EXPECT_FALSE(answer.NextRequest().has_value());
  EXPECT_EQ(answer.outcome().num_right, 3);
}

TEST_F(EvalAnswerTest, AnExactAnswerRunsToItsEnd) {
  group_.questions[0].matcher =
      AnswerMatcher::Create({.rule = MatchRule::kExact, .answers = {"wqxz"}})
          .value();
  Ids draws = right_;
  draws.push_back(other_);
  EvalAnswer wrong = Answer();
  EXPECT_EQ(Play(wrong, draws, wrong.NextRequest().value()), 5u);
  EXPECT_FALSE(wrong.outcome().exact);
  EXPECT_EQ(wrong.outcome().num_right, 4);
  EvalAnswer right = Answer();
  Play(right, right_, right.NextRequest().value());
  EXPECT_TRUE(right.outcome().exact);
}

TEST_F(EvalAnswerTest, AnErrorIsKept) {
  EvalAnswer answer = Answer();
  answer.NextRequest();
  Completion completion;
  completion.reason = FinishReason::kError;
  completion.error = Error{ErrorCode::kUnsupported, "no token is left to draw"};
  answer.OnFinish(completion);
  ASSERT_TRUE(answer.error().has_value());
  EXPECT_EQ(answer.error()->code, ErrorCode::kUnsupported);
  EXPECT_EQ(answer.error()->message, "no token is left to draw");
}

}  // namespace
}  // namespace winnow
