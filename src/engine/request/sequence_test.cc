#include "engine/request/sequence.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

constexpr int kNumLayers = 6;

class SequenceListener : public RequestObserver {
 public:
  void OnPrefill(int done, int) override { prefill.push_back(done); }
  bool OnToken(const GeneratedToken& token) override {
    ids.push_back(token.token_id);
    starts.push_back(token.start);
    return token.token_id != unwanted;
  }
  void OnFinish(const Completion&) override {}

  std::vector<int> prefill;
  std::vector<int32_t> ids;
  std::vector<std::optional<RequestStart>> starts;
  int32_t unwanted = -1;
};

class SequenceTest : public testing::Test {
 protected:
  static Request Asking(int num_tokens, int max_tokens) {
    Request request;
    for (int i = 0; i < num_tokens; ++i) request.prompt.push_back(i % 7);
    request.max_tokens = max_tokens;
    return request;
  }
  Sequence Make(Request request) {
    return Sequence(SequenceId(1), std::move(request), {}, &listener_);
  }
  // Why the sequence ends with this draw; nothing where it goes on.
  static std::optional<FinishReason> Draw(Sequence& sequence, int32_t id) {
    FinishReason reason = FinishReason::kError;
    const bool ends = sequence.Take({.token_id = id, .top = {}}, &reason);
    return ends ? std::optional(reason) : std::nullopt;
  }
  static StepItem Rows(int first, int count, int first_layer = 0,
                       int end_layer = kNumLayers) {
    return {.sequence = SequenceId(1),
            .first_token = first,
            .num_tokens = count,
            .first_layer = first_layer,
            .end_layer = end_layer};
  }

  SequenceListener listener_;
};

// The token that is drawn last is never fed, and takes no room.
TEST_F(SequenceTest, ItsLifeEndsBeforeTheLastTokenIsFed) {
  EXPECT_EQ(Make(Asking(32, 1)).Snapshot().life_pages, 1);
  EXPECT_EQ(Make(Asking(32, 2)).Snapshot().life_pages, 2);
  EXPECT_EQ(Make(Asking(1, INT32_MAX)).Snapshot().life_pages,
            (int64_t{INT32_MAX} + 31) / 32);
}

// A fork shares the full pages; the open one it copies.
TEST_F(SequenceTest, AForkNeedsWhatItDoesNotShare) {
  for (const auto& [num_tokens, own, fork] :
       {std::tuple{64, 2, 1}, {65, 3, 1}, {40, 2, 2}}) {
    Prefix prefix = {.tokens = Asking(num_tokens, 1).prompt,
                     .max_length = 90,
                     .selector = 1};
    const auto made =
        Sequence::MakePrefix(SequenceId(1), prefix, {}, &listener_);
    EXPECT_TRUE(made->is_prefix());
    EXPECT_EQ(made->request().selector, 1);
    EXPECT_EQ(made->Snapshot().life_pages, own) << num_tokens;
    EXPECT_EQ(made->Snapshot().fork_pages, fork) << num_tokens;
    Request request = Asking(num_tokens + 2, 88 - num_tokens);
    request.prefix = SequenceId(1);
    const auto forked =
        Sequence::MakeFork(SequenceId(2), request, *made, &listener_);
    EXPECT_EQ(forked->Snapshot().life_pages, fork) << num_tokens;
    EXPECT_EQ(forked->num_computed(), num_tokens);
    EXPECT_FALSE(forked->is_prefix());
  }
}

TEST_F(SequenceTest, AChunkCountsOnceItHasPassedTheLastLayer) {
  Sequence sequence = Make(Asking(50, 4));
  sequence.Land(Rows(0, 32, 0, 2), kNumLayers);
  EXPECT_EQ(sequence.num_computed(), 0);
  EXPECT_EQ(sequence.Snapshot().chunk_tokens, 32);
  EXPECT_EQ(sequence.Snapshot().next_layer, 2);
  EXPECT_TRUE(listener_.prefill.empty());
  EXPECT_DEATH(sequence.Land(Rows(0, 32, 3, 6), kNumLayers), "layer=2");
  sequence.Land(Rows(0, 32, 2, 6), kNumLayers);
  EXPECT_EQ(sequence.num_computed(), 32);
  EXPECT_EQ(sequence.Snapshot().chunk_tokens, 0);
  EXPECT_EQ(sequence.Snapshot().next_layer, 0);
  EXPECT_DEATH(sequence.Land(Rows(33, 1), kNumLayers), "computed=32");
  sequence.Land(Rows(32, 18), kNumLayers);
  EXPECT_EQ(listener_.prefill, (std::vector{32, 50}));
  Draw(sequence, 3);
  sequence.Land(Rows(50, 1), kNumLayers);
  EXPECT_EQ(listener_.prefill.size(), 2u);  // No prompt any more.
}

TEST_F(SequenceTest, EndsForTheReasonThatComesFirst) {
  Request request = Asking(3, 2);
  request.end_token_ids = {8, 9};
  listener_.unwanted = 5;
  Sequence ended = Make(request);
  EXPECT_EQ(Draw(ended, 9), FinishReason::kStop);
  Sequence unwanted = Make(request);
  EXPECT_EQ(Draw(unwanted, 4), std::nullopt);
  EXPECT_EQ(Draw(unwanted, 5), FinishReason::kStop);  // And the last one.
  Sequence longest = Make(request);
  EXPECT_EQ(Draw(longest, 4), std::nullopt);
  EXPECT_EQ(Draw(longest, 4), FinishReason::kLength);
  EXPECT_EQ(longest.tokens(), (std::vector<int32_t>{0, 1, 2, 4, 4}));
}

// What is drawn is told; what is forced goes on, and may end the text.
TEST_F(SequenceTest, ForcedTokensStandInPlaceOfDraws) {
  Request request = Asking(2, 4);
  request.forced_tokens = {6, 8};
  request.end_token_ids = {8};
  Sequence sequence = Make(request);
  EXPECT_EQ(Draw(sequence, 8), std::nullopt);
  EXPECT_EQ(Draw(sequence, 3), FinishReason::kStop);
  EXPECT_EQ(sequence.tokens(), (std::vector<int32_t>{0, 1, 6, 8}));
  EXPECT_EQ(listener_.ids, (std::vector<int32_t>{8, 3}));
}

TEST_F(SequenceTest, PenaltiesCountWhatWasGeneratedAndKnowThePrompt) {
  Request request = Asking(3, 9);
  Sequence without = Make(request);
  Draw(without, 2);
  EXPECT_TRUE(without.seen().empty());
  request.sampling.presence_penalty = 0.5f;
  request.forced_tokens = {2};
  Sequence sequence = Make(request);
  for (const int32_t id : {5, 2, 6}) Draw(sequence, id);
  EXPECT_EQ(sequence.seen(),
            (std::map<int32_t, int>{{0, 0}, {1, 0}, {2, 2}, {6, 1}}));
}

TEST_F(SequenceTest, BeginsWithCachedPagesButForARow) {
  Sequence sequence = Make(Asking(65, 4));
  sequence.BeginCached({0, 0}, /*num_fetched=*/0);
  EXPECT_EQ(sequence.num_computed(), 64);
  EXPECT_EQ(
      sequence.Complete(FinishReason::kStop, kNumLayers).num_cached_tokens, 64);
  Sequence full = Make(Asking(64, 4));
  EXPECT_DEATH(full.BeginCached({0, 0}, /*num_fetched=*/0),
               "cached=64 prompt=64");
  Request asking = Asking(65, 4);
  asking.num_question_tokens = 2;
  Sequence question = Make(asking);
  EXPECT_DEATH(question.BeginCached({0, 0}, /*num_fetched=*/0), "question=2");
}

TEST_F(SequenceTest, SaysWhatItsRowsRead) {
  Sequence sequence = Make(Asking(3, 9));
  EXPECT_EQ(
      sequence.Complete(FinishReason::kStop, kNumLayers).kv.tokens_read_share,
      0);
  // A row with a context of 12: 4 layers read half of it, 2 all.
  sequence.CountReads(2.0, 12, 4);
  sequence.CountReads(2.0, 12, 2);
  sequence.CountReads(6.0, 13, 6);
  // They count once their rows are computed in all layers.
  EXPECT_EQ(
      sequence.Complete(FinishReason::kStop, kNumLayers).kv.num_decode_rows, 0);
  sequence.Land(Rows(0, 3), kNumLayers);
  EXPECT_EQ(sequence.num_counted(), 3);
  const Completion completion =
      sequence.Complete(FinishReason::kStop, kNumLayers);
  EXPECT_EQ(completion.kv.num_decode_rows, 2);
  EXPECT_DOUBLE_EQ(completion.kv.tokens_read_share, 10.0 / 12);
  EXPECT_EQ(completion.kv.num_tokens_read, (4 * 6 + 2 * 12) / 6 + 13);
}

TEST_F(SequenceTest, GivesWayAndGoesOnWithoutTellingAnythingTwice) {
  Sequence sequence = Make(Asking(70, 9));
  sequence.Admit();
  sequence.Land(Rows(0, 64), kNumLayers);
  for (int row = 65; row <= 70; ++row) sequence.CountReads(1.0, row, 2);
  sequence.Land(Rows(64, 6, 0, 2), kNumLayers);
  sequence.Preempt();
  EXPECT_TRUE(sequence.preempted());
  EXPECT_EQ(sequence.num_computed(), 0);
  EXPECT_EQ(sequence.Snapshot().chunk_tokens, 0);
  EXPECT_FALSE(sequence.Snapshot().admitted);
  sequence.Admit();
  sequence.Resume({0}, /*num_tokens=*/64, /*num_fetched=*/1);
  EXPECT_FALSE(sequence.preempted());
  EXPECT_EQ(sequence.cached_kinds().size(), 1u);
  sequence.Land(Rows(64, 6), kNumLayers);
  EXPECT_EQ(listener_.prefill, (std::vector<int>{64, 70}));
  sequence.Preempt();
  sequence.Admit();
  sequence.Resume({}, /*num_tokens=*/0, /*num_fetched=*/0);
  sequence.Land(Rows(0, 70), kNumLayers);
  EXPECT_EQ(listener_.prefill, (std::vector<int>{64, 70}));
  const Completion completion =
      sequence.Complete(FinishReason::kStop, kNumLayers);
  EXPECT_EQ(completion.num_preemptions, 2);
  EXPECT_EQ(completion.num_cached_tokens, 0);
  EXPECT_EQ(completion.kv.num_decode_rows, 0);  // The chunk was dropped.
  EXPECT_EQ(sequence.num_fetched_pages(), 1);
}

TEST_F(SequenceTest, TimesAreInOrderAndNoneWhereNothingCame) {
  Sequence waiting = Make(Asking(3, 9));
  const Completion cancelled =
      waiting.Complete(FinishReason::kCancelled, kNumLayers);
  EXPECT_EQ(cancelled.num_generated_tokens, 0);
  EXPECT_GE(cancelled.timing.queue_ms, 0);
  EXPECT_EQ(cancelled.timing.prefill_ms, 0);
  EXPECT_EQ(cancelled.timing.first_token_ms, 0);
  Sequence sequence = Make(Asking(3, 9));
  sequence.Admit();
  EXPECT_DEATH(sequence.Admit(), "admitted_");
  Draw(sequence, 3);
  Draw(sequence, 4);
  const RequestTiming timing =
      sequence.Complete(FinishReason::kStop, kNumLayers).timing;
  EXPECT_NEAR(timing.queue_ms + timing.prefill_ms, timing.first_token_ms, 1e-6);
  EXPECT_GE(timing.decode_ms, 0);
}

TEST_F(SequenceTest, ItsFirstTokenSaysHowItBeganAsItsCompletionDoes) {
  Sequence sequence = Make(Asking(65, 4));
  sequence.Admit();
  sequence.BeginCached({0, 0}, /*num_fetched=*/0);
  Draw(sequence, 3);
  Draw(sequence, 4);
  ASSERT_EQ(listener_.starts.size(), 2u);
  ASSERT_TRUE(listener_.starts[0].has_value());
  EXPECT_FALSE(listener_.starts[1].has_value());
  const RequestStart& start = *listener_.starts[0];
  const Completion completion =
      sequence.Complete(FinishReason::kStop, kNumLayers);
  EXPECT_EQ(start.num_cached_tokens, 64);
  EXPECT_EQ(start.num_cached_tokens, completion.num_cached_tokens);
  EXPECT_EQ(start.queue_ms, completion.timing.queue_ms);
  EXPECT_EQ(start.first_token_ms, completion.timing.first_token_ms);
}

TEST_F(SequenceTest, OnlyAPrefixIsReleasedAndOnce) {
  Sequence sequence = Make(Asking(3, 9));
  EXPECT_DEATH(sequence.Release(), "is_prefix=false");
  const auto prefix = Sequence::MakePrefix(
      SequenceId(1), {.tokens = {1}, .max_length = 9}, {}, &listener_);
  prefix->Release();
  EXPECT_TRUE(prefix->released());
  EXPECT_DEATH(prefix->Release(), "released=true");
}

}  // namespace
}  // namespace winnow
