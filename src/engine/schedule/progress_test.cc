// The law of progress: whatever the bounds, what steps are foretold to take,
// and who comes, is preempted or waits for its pages, a step that is planned
// where anyone may run brings on who generates and the first prompt, and all
// end.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "engine/schedule/preemption.h"
#include "engine/schedule/scheduler.h"

namespace winnow {
namespace {

// Requests from their arrival to their end, by plans alone.
class Lives {
 public:
  static constexpr int64_t kNumPages = 40;

  explicit Lives(unsigned seed) : random_(seed) {
    input_.limits = {.max_num_seqs = 1 + Below(6),
                     .max_num_batched_tokens = 1 + Below(OneIn(2) ? 50 : 400),
                     .num_layers = 1 + Below(6),
                     .layers_per_step = OneIn(2) ? 0 : 1 + Below(6),
                     .num_pages = kNumPages,
                     .num_free_host_pages = 100};
    constexpr double kBounds[] = {0, 1e-9, 1, 20, 1e9};
    input_.limits.max_step_ms = kBounds[Below(5)];
    num_to_come_ = 1 + Below(12);
  }

  bool is_over() const { return num_to_come_ == 0 && input_.sequences.empty(); }

  // One turn of the engine's loop.
  void Step() {
    if (num_to_come_ > 0 && (OneIn(4) || input_.sequences.empty())) Come();
    for (SequenceSnapshot& sequence : input_.sequences) {
      if (OneIn(3)) sequence.is_restoring = false;
    }
    if (num_to_give_way_ > 0 && OneIn(8)) GiveWay();
    ChangeCost();
    Schedule schedule = PlanStep(input_);
    while (!schedule.admitted.empty()) {
      Admit(schedule);
      schedule = PlanStep(input_);
    }
    CheckProgress(schedule.plan);
    for (const StepItem& item : schedule.plan.items) Land(item);
    std::erase_if(input_.sequences, [](const SequenceSnapshot& sequence) {
      return sequence.num_computed == sequence.num_tokens;
    });
    if (schedule.plan.empty()) return;
    fit_.Add(WorkOf(schedule.plan, input_.limits.num_layers),
             0.01 * (1 + Below(100'000)));
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % unsigned(n)); }
  bool OneIn(int n) { return Below(n) == 0; }

  void Come() {
    --num_to_come_;
    SequenceSnapshot& sequence = input_.sequences.emplace_back();
    sequence.id = SequenceId(++last_id_);
    sequence.num_tokens = 1 + Below(OneIn(3) ? 1000 : 100);
    sequence.priority = Below(3);
    sequence.life_pages = 1 + Below(kNumPages);
    if (OneIn(2)) {
      sequence.expected_pages =
          1 + Below(static_cast<int>(sequence.life_pages));
    }
    sequence.layerwise = OneIn(4);
    sequence.needs_all_layers = OneIn(4);
    num_left_[sequence.id] = 1 + Below(20);
  }

  // Anything may be foretold: nothing, what is far from true, what was seen.
  void ChangeCost() {
    constexpr StepWork kAll = {.rows = 1e9, .reads = 1e12};
    switch (Below(4)) {
      case 0:
        input_.cost = {};
        break;
      case 1:
        input_.cost = {.step_ms = 1e6, .most = kAll};
        break;
      case 2:
        input_.cost = {.row_ms = 1e-3 * Below(1000),
                       .single_row_ms = Below(100) * 1.0,
                       .margin = 1.0 + Below(16),
                       .most = kAll};
        break;
      default:
        input_.cost = fit_.cost();
    }
  }

  void GiveWay() {
    --num_to_give_way_;
    const auto victim = PreemptionVictim(input_.sequences);
    if (!victim) return;
    SequenceSnapshot& sequence = Get(*victim);
    sequence.admitted = sequence.is_restoring = false;
    sequence.num_computed = sequence.chunk_tokens = sequence.next_layer = 0;
  }

  void Admit(const Schedule& schedule) {
    for (const SequenceId id : schedule.admitted) {
      Get(id).admitted = true;
      Get(id).is_restoring = OneIn(5);
    }
    for (const SequenceId id : schedule.overtaken) ++Get(id).num_overtaken;
  }

  SequenceSnapshot& Get(SequenceId id) {
    return *std::ranges::find(input_.sequences, id, &SequenceSnapshot::id);
  }

  void CheckProgress(const StepPlan& plan) {
    const auto& sequences = input_.sequences;
    int num_single = 0, num_running = 0;
    bool any_under_way = false;
    const SequenceSnapshot* prompt = nullptr;
    for (const SequenceSnapshot& sequence : sequences) {
      if (!sequence.admitted || sequence.is_restoring) continue;
      ++num_running;
      any_under_way |= sequence.chunk_tokens > 0;
      const bool is_single = sequence.num_tokens == sequence.num_computed + 1;
      num_single += is_single ? 1 : 0;
      if (!is_single && prompt == nullptr) prompt = &sequence;
    }
    // Whoever waits alone fits in.
    const bool any_admitted = std::ranges::any_of(
        sequences, [](const auto& each) { return each.admitted; });
    EXPECT_TRUE(sequences.empty() || any_admitted);
    EXPECT_EQ(plan.empty(), num_running == 0);
    const int num_rows = input_.limits.max_num_batched_tokens;
    EXPECT_LE(NumRows(plan), num_rows);
    for (const SequenceSnapshot& sequence : sequences) {
      if (!sequence.admitted || sequence.is_restoring) continue;
      const StepItem* item = plan.Find(sequence.id);
      // What has begun goes on, and so does who generates.
      if (sequence.chunk_tokens > 0) {
        ASSERT_NE(item, nullptr);
        EXPECT_EQ(item->num_tokens, sequence.chunk_tokens);
      } else if (sequence.num_tokens == sequence.num_computed + 1 &&
                 !any_under_way && num_single <= num_rows) {
        EXPECT_NE(item, nullptr);
      }
    }
    if (prompt == nullptr || any_under_way) return;
    // Whatever the limits, there is a row for it.
    ASSERT_LT(num_single, num_rows);
    const bool by_layers = prompt->reads_by_layers();
    const int first = by_layers ? prompt->layer_tokens : prompt->num_computed;
    const int room = std::min(num_rows - num_single, kPageTokens);
    const int to_page_end = kPageTokens - first % kPageTokens;
    // Shorter ones may have half of a page.
    const bool is_alone = num_single + 1 == num_running;
    const int share = is_alone ? room : (room + 1) / 2;
    const StepItem* item = plan.Find(prompt->id);
    ASSERT_NE(item, nullptr) << ToString(plan);
    EXPECT_GE(item->num_tokens,
              std::min({prompt->num_tokens - first, to_page_end, share}))
        << ToString(plan);
  }

  void Land(const StepItem& item) {
    SequenceSnapshot& sequence = Get(item.sequence);
    ASSERT_GT(item.num_tokens, 0);
    ASSERT_GT(item.end_layer, item.first_layer);
    ASSERT_EQ(item.first_layer, sequence.next_layer);
    const bool is_last = item.end_layer == input_.limits.num_layers;
    if (item.layerwise) {
      sequence.layer_tokens += item.num_tokens;
      if (sequence.layer_tokens < sequence.num_tokens) return;
      sequence.next_layer = is_last ? 0 : item.end_layer;
      sequence.layer_tokens = 0;
      if (is_last) sequence.num_computed = sequence.num_tokens;
    } else {
      sequence.chunk_tokens = is_last ? 0 : item.num_tokens;
      sequence.next_layer = is_last ? 0 : item.end_layer;
      if (is_last) sequence.num_computed += item.num_tokens;
    }
    if (item.samples && --num_left_[sequence.id] > 0) ++sequence.num_tokens;
  }

  std::mt19937 random_;
  ScheduleInput input_;
  StepCostFit fit_;
  int num_to_come_ = 0;
  int num_to_give_way_ = 6;
  uint64_t last_id_ = 0;
  std::map<SequenceId, int> num_left_;  // tokens to be generated
};

TEST(ProgressTest, EveryStepBringsOnWhoRunsAndAllEnd) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Lives lives(seed);
    int num_steps = 0;
    while (!lives.is_over()) {
      // 12 of 1000 tokens, by the token, through 6 layers, 7 times each.
      ASSERT_LT(++num_steps, 12 * 1020 * 6 * 7);
      lives.Step();
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace winnow
