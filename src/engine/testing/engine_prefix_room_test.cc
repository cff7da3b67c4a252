// Prefixes that are held leave room for their forks, and for whoever else is
// alone beside them: segments of summaries, and slots of the queries that fix a
// choice. Who would take one too many of these is refused.
#include <gtest/gtest.h>

#include <random>

#include "backend/contract/summary_table.h"
#include "backend/cpu/cpu_backend.h"
#include "engine/schedule/admission.h"
#include "engine/testing/engine_invariants.h"
#include "engine/testing/recording_observer.h"
#include "kv/table_capacity.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// Prefixes of random lengths as far as there is room for them, all with the
// same pages or not: what they share in pages they need not in summaries.
class HeldPrefixes {
 public:
  explicit HeldPrefixes(std::mt19937& random) : random_(random) {
    const TableCapacity tables = {
        .num_kv_blocks = 4 + Below(300),
        .num_host_kv_blocks = Below(2) * Below(300),
        .max_sequences = 1 + static_cast<int>(Below(4))};
    input_.limits = {.max_num_seqs = tables.max_sequences,
                     .max_num_batched_tokens = 100,
                     .num_layers = 1,
                     .num_pages = tables.num_kv_blocks};
    input_.num_segments = {NumSummarySegments(
        {tables, kSegmentTokens, tables.num_kv_blocks * kPageTokens})};
    for (int i = 0; i < 2 * tables.max_sequences; ++i) {
      AddOne(i < tables.max_sequences ? 0 : -1);
    }
  }

  // Whether the longest forks and whoever has the pages that are left would be
  // admitted, each alone.
  void ExpectRoomForEach() {
    int64_t firm = 0;
    for (const SequenceSnapshot& prefix : input_.sequences) {
      firm += prefix.life_pages + prefix.fork_pages;
    }
    ASSERT_LE(firm, input_.limits.num_pages);
    const std::vector<SequenceSnapshot> held = input_.sequences;
    for (const SequenceSnapshot& prefix : held) {
      const int64_t num_full = prefix.num_tokens / kPageTokens;
      SequenceSnapshot fork = {.id = SequenceId(99),
                               .num_tokens = prefix.num_tokens + 1,
                               .num_computed = prefix.num_tokens,
                               .life_pages = prefix.fork_pages,
                               .prefix = prefix.id};
      SetSegments((num_full + prefix.fork_pages) * kPageTokens, fork);
      if (prefix.selector == 0) {
        fork.shared_segments = prefix.num_tokens / kSegmentTokens;
      }
      ExpectRoomFor(fork);
    }
    const int64_t num_left = input_.limits.num_pages - firm;
    if (num_left == 0) return;
    SequenceSnapshot plain = {
        .id = SequenceId(99), .num_tokens = 7, .life_pages = num_left};
    SetSegments(num_left * kPageTokens, plain);
    ExpectRoomFor(plain);
  }

 private:
  int64_t Below(int64_t count) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(count));
  }
  static void SetSegments(int64_t num_tokens, SequenceSnapshot& sequence) {
    sequence.selector = 0;
    sequence.num_segments = PagesFor(num_tokens, kSegmentTokens);
  }
  void AddOne(int selector) {
    const int64_t most = input_.limits.num_pages * kPageTokens;
    const int64_t num_tokens = 1 + Below(most);
    const int64_t max_length = num_tokens + 2 + Below(2) * Below(most);
    SequenceSnapshot prefix = {
        .id = SequenceId(input_.sequences.size() + 1),
        .num_tokens = static_cast<int>(num_tokens),
        .life_pages = PagesFor(num_tokens),
        .fork_pages = PagesFor(max_length - 1) - num_tokens / kPageTokens};
    if (selector >= 0) SetSegments(num_tokens, prefix);
    input_.sequences.push_back(prefix);
    if (PlanStep(input_).admitted.empty()) {
      input_.sequences.pop_back();
      return;
    }
    input_.sequences.back().admitted = true;
    input_.sequences.back().num_computed = prefix.num_tokens;
    input_.repeated_pages += Below(2) * Below(prefix.life_pages);
  }
  void ExpectRoomFor(const SequenceSnapshot& sequence) {
    input_.sequences.push_back(sequence);
    EXPECT_EQ(PlanStep(input_).admitted.size(), 1u)
        << sequence.life_pages << " pages, " << sequence.num_segments << " of "
        << input_.num_segments[0] << " segments";
    input_.sequences.pop_back();
  }

  std::mt19937& random_;
  ScheduleInput input_;
};

TEST(PrefixRoomTest, WhoeverIsAloneBesidePrefixesFindsSegments) {
  std::mt19937 random(17);
  for (int run = 0; run < 1000 && !testing::Test::HasFailure(); ++run) {
    SCOPED_TRACE(run);
    HeldPrefixes(random).ExpectRoomForEach();
  }
}

class EnginePrefixRoomTest : public testing::Test {
 protected:
  std::vector<int32_t> Text(int first, int num_tokens) const {
    std::vector<int32_t> text;
    for (int i = 0; i < num_tokens; ++i) {
      text.push_back(TinyToken(golden_, first, i));
    }
    return text;
  }
  Request Fork(SequenceId prefix, int first) const {
    Request request;
    request.prompt = Text(first, 44);
    for (const int32_t token : Text(5 * first + 3, 10)) {
      request.prompt.push_back(token);
    }
    request.max_tokens = 8;
    request.selector = 0;
    request.prefix = prefix;
    return request;
  }

  const TinyCase golden_ = ReadTinyCase("llama");
  const std::unique_ptr<Model> model_ = LoadTinyModel(golden_, Dtype::kFloat32);
  const std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 2});
};

// Each prefix keeps queries that its forks begin with, and each that runs, a
// fork too, has its own: that is all slots that there are, and nobody lacks
// one, also not who was preempted and comes back.
TEST_F(EnginePrefixRoomTest, EachWhoIsHeldOrRunsHasASlotOfQueries) {
  std::vector<RecordingObserver> holders(3), listeners(8);
  EngineOptions options = {.max_model_len = 96, .max_num_seqs = 2};
  options.device_kv_bytes = 4 << 20;
  options.host_kv_bytes = 1 << 20;
  options.selectors = {"snapkv:budget=20,window=6,kernel=3"};
  const auto engine = Engine::Create(*backend_, *model_, options).value();
  const KvCache& queries = *engine->selectors().fixed_queries(0);
  ASSERT_EQ(queries.num_pages(), 2 * 2);
  const auto prefix_of = [&](int first) {
    return Prefix{.tokens = Text(first, 44), .max_length = 70, .selector = 0};
  };
  std::vector<SequenceId> prefixes;
  for (const int i : {0, 1}) {
    prefixes.push_back(
        engine->AddPrefix(prefix_of(i), &holders[static_cast<size_t>(i)])
            .value());
  }
  const auto refused = engine->AddPrefix(prefix_of(2), &holders[2]);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "prefixes with a selector must be at most max-num-seqs (2) at "
            "once, are 3");
  std::vector<SequenceId> ids;
  for (size_t i = 0; i < listeners.size(); ++i) {
    Request request = Fork(prefixes[i % 2], static_cast<int>(i % 2));
    if (i % 4 == 3) request.prefix.reset();
    ids.push_back(engine->Add(request, &listeners[i]).value());
  }
  int64_t least = queries.num_pages();
  for (size_t step = 0; !std::ranges::all_of(
           listeners, [](const auto& each) { return each.finished; });
       ++step) {
    ASSERT_TRUE(engine->Step().value());
    ASSERT_EQ(BrokenInvariants(*engine), std::vector<std::string>());
    least = std::min(least, queries.num_free_pages());
    if (step % 5 == 4) engine->Preempt(ids[step % ids.size()]);
  }
  EXPECT_EQ(least, 0);
  for (const SequenceId id : prefixes) engine->Release(id);
  EXPECT_EQ(queries.num_free_pages(), queries.num_pages());
}

}  // namespace
}  // namespace winnow
