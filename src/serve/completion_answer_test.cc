#include "serve/completion_answer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

namespace winnow {
namespace {

using nlohmann::json;

GeneratedToken TokenOf(int32_t id) {
  return {.token_id = id, .logprob = 0, .top = {}};
}

// Answers fed by hand, as an engine would.
class CompletionAnswerTest : public testing::Test {
 protected:
  CompletionAnswerTest()
      : tokenizer_(Tokenizer::Load(std::filesystem::path(WINNOW_SOURCE_DIR) /
                                   "lab/models/winnow-lab")
                       .value()),
        ids_(tokenizer_.Encode("points to Keleska . the", false).value()) {}

  std::unique_ptr<CompletionAnswer> Make(AnswerForm form, int num_choices,
                                         std::vector<std::string> stops = {}) {
    std::vector<AnswerSource> sources;
    for (int i = 0; i < num_choices; ++i) {
      feeds_.push_back(std::make_shared<TokenFeed>(metrics_));
      sources.push_back(
          {.ticket = Ticket{static_cast<uint64_t>(i + 1)},
           .feed = feeds_.back(),
           .text = AnswerText(Detokenizer(tokenizer_, true),
                              StopMatcher::Create(stops).value())});
    }
    return std::make_unique<CompletionAnswer>(
        std::move(form), std::move(sources),
        [this](Ticket ticket) { cancelled_.push_back(ticket); }, tokenizer_,
        metrics_);
  }
  void Push(int feed, int32_t id) {
    EXPECT_TRUE(feeds_[static_cast<size_t>(feed)]->OnToken(TokenOf(id)));
  }
  void Finish(int feed, FinishReason reason) {
    Completion completion;
    completion.reason = reason;
    completion.num_generated_tokens = 1;
    feeds_[static_cast<size_t>(feed)]->OnFinish(completion);
  }

  Metrics metrics_{"m"};
  Tokenizer tokenizer_;
  std::vector<int32_t> ids_;
  std::vector<std::shared_ptr<TokenFeed>> feeds_;
  std::vector<Ticket> cancelled_;
};

TEST_F(CompletionAnswerTest, AWholeAnswerWaitsForAllChoices) {
  const auto answer = Make({.num_prompt_tokens = 7}, 2);
  for (const int feed : {0, 1}) {
    feeds_[static_cast<size_t>(feed)]->Accept();
    for (const int32_t id : ids_) Push(feed, id);
    EXPECT_TRUE(answer->Take().empty());
    Finish(feed, FinishReason::kLength);
  }
  const HttpPart part = answer->Take();
  ASSERT_TRUE(part.head && part.last);
  const json whole = json::parse(part.body);
  EXPECT_EQ(whole["choices"][1]["text"], "points to Keleska . the");
  EXPECT_EQ(whole["choices"][1]["index"], 1);
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(whole["usage"]["completion_tokens"], 2 * ids_.size());
  EXPECT_EQ(whole["usage"]["prompt_tokens"], 7);
  EXPECT_TRUE(cancelled_.empty());
}

TEST_F(CompletionAnswerTest, AStopStringEndsTheRequestOnce) {
  const auto answer = Make({.stream = true}, 1, {" Kele"});
  feeds_[0]->Accept();
  std::string sent;
  for (const int32_t id : ids_) {
    Push(0, id);
    sent += answer->Take().body;
  }
  EXPECT_EQ(cancelled_, std::vector<Ticket>{Ticket{1}});
  Finish(0, FinishReason::kCancelled);
  const HttpPart last = answer->Take();
  EXPECT_TRUE(last.last);
  sent += last.body;
  EXPECT_EQ(sent.find("the"), std::string::npos);
  EXPECT_NE(sent.find(R"("finish_reason":"stop")"), std::string::npos);
  EXPECT_TRUE(sent.ends_with("data: [DONE]\n\n"));
  EXPECT_NE(metrics_.Text().find("finished_reason=\"stop\"} 1\n"),
            std::string::npos);
}

TEST_F(CompletionAnswerTest, AnErrorIsAStatusOrAnEvent) {
  const auto refused = Make({.stream = true}, 1);
  EXPECT_TRUE(refused->Take().empty());
  feeds_[0]->Refuse({ErrorCode::kInvalidArgument, "too long"});
  EXPECT_EQ(refused->Take().head->status, 400);

  const auto begun = Make({.stream = true}, 1);
  feeds_[1]->Accept();
  EXPECT_EQ(begun->Take().head->status, 200);
  Completion failed;
  failed.reason = FinishReason::kError;
  failed.error = Error{ErrorCode::kCorrupt, "no token is left"};
  feeds_[1]->OnFinish(failed);
  const HttpPart part = begun->Take();
  EXPECT_FALSE(part.head);
  EXPECT_TRUE(part.last);
  EXPECT_TRUE(part.body.starts_with("data: {\"error\""));
}

TEST_F(CompletionAnswerTest, WhoLeavesCancelsWhatStillRuns) {
  auto answer = Make({}, 2);
  int num_wakes = 0;
  answer->SetWake([&num_wakes] { ++num_wakes; });
  feeds_[0]->Accept();
  feeds_[0]->OnToken(TokenOf(ids_[0]));
  EXPECT_EQ(num_wakes, 1);  // Once until it is looked at.
  Finish(1, FinishReason::kStop);
  EXPECT_TRUE(answer->Take().empty());
  answer.reset();
  EXPECT_EQ(cancelled_, std::vector<Ticket>{Ticket{1}});
  feeds_[0]->OnToken(TokenOf(ids_[0]));
  EXPECT_EQ(num_wakes, 2);
}

TEST_F(CompletionAnswerTest, AFeedHoldsNoMoreThanItsBound) {
  TokenFeed feed(metrics_);
  for (size_t i = 0; i < TokenFeed::kMaxPendingTokens; ++i) {
    ASSERT_TRUE(feed.OnToken(TokenOf(5)));
  }
  EXPECT_FALSE(feed.OnToken(TokenOf(5)));
  const FeedEvents events = feed.Take();
  EXPECT_TRUE(events.overflowed);
  EXPECT_EQ(events.tokens.size(), TokenFeed::kMaxPendingTokens);
}

}  // namespace
}  // namespace winnow
