#include "engine/planner.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// Sequences that no step has run, over pools that hold no true byte.
class PlannerTest : public testing::Test {
 protected:
  static constexpr int kPages = 4;

  void SetUp() override {
    model_ = LoadTinyModel(ReadTinyCase("llama"), Dtype::kFloat32);
    num_layers_ = model_->config().num_layers;
    residency_.emplace(MakeKvTiers(*backend_, *model_,
                                   {.num_pages = kPages,
                                    .num_host_pages = kPages,
                                    .max_model_len = 96,
                                    .max_num_seqs = 4,
                                    .max_requests = 4,
                                    .max_rows = 64},
                                   meter_.decided_rates())
                           .value(),
                       ResidencyOptions(),
                       ResidencyLinks{.sequences = sequences_,
                                      .counters = meter_.counted(),
                                      .rates = meter_.decided_rates()});
    planner_.emplace(options_, num_layers_,
                     Planner::Views{.sequences = sequences_,
                                    .residency = *residency_,
                                    .meter = meter_});
  }
  void TearDown() override {
    KvCache& kv = *residency_->tiers().kv;
    for (const SequenceId id : kv.sequences()) kv.Close(id);
  }
  SequenceId Add(int num_tokens, int max_tokens) {
    Request request;
    request.prompt.assign(static_cast<size_t>(num_tokens), 5);
    request.max_tokens = max_tokens;
    const SequenceId id = sequences_.TakeId();
    sequences_.Add(std::make_unique<Sequence>(id, std::move(request),
                                              RequestRope(), nullptr));
    return id;
  }
  // Admitted, with pages for its prompt.
  SequenceId Run(int num_tokens, int max_tokens) {
    const SequenceId id = Add(num_tokens, max_tokens);
    sequences_.Get(id).Admit();
    KvCache& kv = *residency_->tiers().kv;
    kv.Open(id);
    const Growth growth = {id, num_tokens};
    kv.Reserve({&growth, 1})->Commit();
    return id;
  }
  StepPlan WholePrompts() const {
    StepPlan plan;
    for (const auto& sequence : sequences_) {
      plan.items.push_back({.sequence = sequence->id(),
                            .num_tokens = sequence->num_prompt_tokens(),
                            .end_layer = num_layers_,
                            .samples = true});
    }
    return plan;
  }

  EngineOptions options_ = {
      .max_num_seqs = 4,
      .max_num_batched_tokens = 64,
      .on_decision =
          [this](const Decision& decision) { decisions_.push_back(decision); },
      .looks_ahead = true};
  const std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
  std::unique_ptr<Model> model_;
  int num_layers_ = 0;
  StepMeter meter_{options_, 1, 1};
  SequenceList sequences_;
  std::optional<Residency> residency_;
  std::optional<Planner> planner_;
  std::vector<Decision> decisions_;
};

TEST_F(PlannerTest, AdmitsByExpectedLivesAndTellsIt) {
  const SequenceId first = Add(33, 60), second = Add(33, 60);
  const Schedule schedule = planner_->Plan(/*admits=*/true);
  EXPECT_EQ(schedule.admitted, (std::vector<SequenceId>{first}));
  ASSERT_EQ(decisions_.size(), 1u);
  const auto& told = std::get<ScheduleDecision>(decisions_[0]);
  EXPECT_EQ(told.schedule, schedule);
  EXPECT_EQ(told.input.sequences.back().id, second);
  EXPECT_EQ(told.input.sequences.back().expected_pages, 3);
  // Requests turn out to be short.
  planner_->CountOutput(4);
  EXPECT_EQ(planner_->Plan(/*admits=*/true).admitted,
            (std::vector<SequenceId>{first, second}));
}

TEST_F(PlannerTest, PlansAheadWhoGoesOn) {
  const SequenceId first = Run(5, 8);
  Run(5, 1);  // It ends with the step under way.
  const std::optional<StepPlan> ahead = planner_->PlanAhead(WholePrompts());
  ASSERT_TRUE(ahead.has_value());
  ASSERT_EQ(ahead->items.size(), 1u);
  EXPECT_EQ(ahead->items[0].sequence, first);
  EXPECT_EQ(ahead->items[0].first_token, 5);
  EXPECT_EQ(ahead->items[0].num_tokens, 1);
}

TEST_F(PlannerTest, PlansNothingAheadOfAnAdmission) {
  Run(5, 8);
  const StepPlan under_way = WholePrompts();
  Add(5, 8);
  EXPECT_EQ(planner_->PlanAhead(under_way), std::nullopt);
}

TEST_F(PlannerTest, PlansNothingAheadWhereAPageIsMissing) {
  Run(32, 8);
  Run(96, 1);
  StepPlan under_way = WholePrompts();
  under_way.items.pop_back();
  EXPECT_EQ(planner_->PlanAhead(under_way), std::nullopt);
}

TEST_F(PlannerTest, TheYoungestIsPreempted) {
  Run(5, 8);
  const SequenceId youngest = Run(5, 8);
  const StepPlan plan = WholePrompts();
  EXPECT_TRUE(planner_->InTheWayOf(plan).empty());
  EXPECT_EQ(planner_->Victim(planner_->Snapshots(), plan), youngest);
  EXPECT_EQ(std::get<VictimDecision>(decisions_.back()).victim, youngest);
}

}  // namespace
}  // namespace winnow
