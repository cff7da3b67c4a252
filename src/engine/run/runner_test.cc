// What a step of the runner gives back, and what it refuses to run. That its
// numbers are right, the engine's and the golden tests say.
#include "engine/run/runner.h"

#include <gtest/gtest.h>

#include <map>

#include "backend/cpu/cpu_backend.h"
#include "engine/testing/hooked_backend.h"
#include "engine/testing/null_observer.h"
#include "model/forward/rope.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// A runner and what the engine would hold for it.
class RunnerTest : public testing::Test {
 protected:
  static constexpr int kMaxRows = 24;

  void SetUp() override {
    golden_ = ReadTinyCase("llama");
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
    num_layers_ = model_->config().num_layers;
    const ModelConfig& config = model_->config();
    cache_ = DeviceCache::Create(
                 backend_,
                 {.format = MakeHeadBlockFormat(
                      model_->dtypes().kv, config.head_dim, config.head_dim),
                  .num_layers = num_layers_,
                  .num_kv_heads = config.num_kv_heads,
                  .num_kv_blocks = 16,
                  .max_requests = 4,
                  .max_pages_per_request = 4,
                  .num_table_pages = 16})
                 .value();
    selectors_ = SelectorSet::Create(backend_, *model_,
                                     {.specs = {},
                                      .max_model_len = 96,
                                      .max_requests = 4,
                                      .max_rows = kMaxRows})
                     .value();
  }
  void TearDown() override {
    for (const auto& [id, sequence] : sequences_) kv_.Close(id);
  }
  void MakeRunner(bool layer_ranges) {
    runner_ = Runner::Create(backend_, *model_, *cache_, *selectors_,
                             /*far=*/{},
                             {.max_rows = kMaxRows,
                              .max_requests = 4,
                              .max_model_len = 96,
                              .batch_invariant = true,
                              .layer_ranges = layer_ranges})
                  .value();
  }
  // A sequence of the golden prompt's tokens from `first` on.
  void Add(uint64_t id, int first, int num_tokens) {
    Request request;
    const auto begin = golden_.tokens.begin() + first;
    request.prompt.assign(begin, begin + num_tokens);
    request.max_tokens = 4;
    request.sampling.temperature = 0;
    const RopeConfig& config = model_->config().rope;
    RequestRope rope;
    rope.inverse_frequencies.resize(static_cast<size_t>(config.rotary_dim / 2));
    RopeFrequencies(config, 96, rope.inverse_frequencies, &rope.scale);
    sequences_[SequenceId(id)] = std::make_unique<Sequence>(
        SequenceId(id), std::move(request), std::move(rope), &nobody_);
    kv_.Open(SequenceId(id));
  }
  Result<StepOutput> Run(const StepPlan& plan) {
    for (const StepItem& item : plan.items) {
      if (item.first_layer > 0) continue;
      std::optional<Reservation> pages =
          kv_.Reserve(std::vector<Growth>{{item.sequence, item.num_tokens}});
      pages->Commit();
    }
    return runner_->Run(
        plan, kv_, [this](SequenceId id) { return sequences_.at(id).get(); });
  }
  StepItem Rows(uint64_t id, int first, int count, bool samples) const {
    return {.sequence = SequenceId(id),
            .first_token = first,
            .num_tokens = count,
            .first_layer = 0,
            .end_layer = num_layers_,
            .samples = samples};
  }
  // The token that a sequence draws behind its prompt, all by itself.
  int32_t DrawnAlone(int first, int num_tokens) {
    Add(99, first, num_tokens);
    const StepOutput output = Run({{Rows(99, 0, num_tokens, true)}}).value();
    kv_.Close(SequenceId(99));
    sequences_.erase(SequenceId(99));
    return output.drawn.at(0).token.token_id;
  }

  HookedBackend backend_{MakeCpuBackend({.num_threads = 1})};
  TinyCase golden_;
  std::unique_ptr<Model> model_;
  int num_layers_ = 0;
  std::unique_ptr<DeviceCache> cache_;
  KvCache kv_{16};
  std::unique_ptr<SelectorSet> selectors_;
  std::unique_ptr<Runner> runner_;
  NullObserver nobody_;
  std::map<SequenceId, std::unique_ptr<Sequence>> sequences_;
};

TEST_F(RunnerTest, DrawsFromThoseThatSampleInThePlansOrder) {
  MakeRunner(/*layer_ranges=*/false);
  const int32_t third = DrawnAlone(40, 8), first = DrawnAlone(9, 5);
  Add(3, 40, 8);
  Add(2, 30, 20);
  Add(1, 9, 5);
  const StepOutput output =
      Run({{Rows(3, 0, 8, true), Rows(2, 0, 7, false), Rows(1, 0, 5, true)}})
          .value();
  ASSERT_EQ(output.drawn.size(), 2u);
  EXPECT_EQ(output.drawn[0].sequence, SequenceId(3));
  EXPECT_EQ(output.drawn[0].token.token_id, third);
  EXPECT_EQ(output.drawn[1].sequence, SequenceId(1));
  EXPECT_EQ(output.drawn[1].token.token_id, first);
  EXPECT_TRUE(output.read_shares.empty());  // Nothing selects.
}

// Each range is a forward of its own; the hidden states wait between them.
TEST_F(RunnerTest, LayerRangesOfOnePlanRunOneAfterAnother) {
  MakeRunner(/*layer_ranges=*/true);
  const int32_t drawn = DrawnAlone(9, 5);
  Add(1, 9, 5);
  Add(2, 30, 6);
  const auto range = [&](uint64_t id, int count, int first, int end) {
    StepItem item = Rows(id, 0, count, end == num_layers_);
    item.first_layer = first;
    item.end_layer = end;
    return item;
  };
  int num_embedded = 0;
  backend_.pre_embed = [&](const EmbedArgs&) { ++num_embedded; };
  EXPECT_TRUE(Run({{range(1, 5, 0, 1)}}).value().drawn.empty());
  const StepOutput output =
      Run({{range(2, 6, 0, 1), range(1, 5, 1, num_layers_)}}).value();
  EXPECT_EQ(num_embedded, 2);
  ASSERT_EQ(output.drawn.size(), 1u);
  EXPECT_EQ(output.drawn[0].sequence, SequenceId(1));
  EXPECT_EQ(output.drawn[0].token.token_id, drawn);
  // What it held of the first is gone, of the second it is there until told.
  EXPECT_DEATH((void)Run({{range(1, 5, 1, num_layers_)}}), "sequence=1");
  runner_->Forget(SequenceId(2));
  EXPECT_DEATH((void)Run({{range(2, 6, 1, num_layers_)}}), "sequence=2");
}

TEST_F(RunnerTest, WhatItHasNoRoomForIsABug) {
  MakeRunner(/*layer_ranges=*/false);
  Add(1, 0, 60);
  EXPECT_DEATH((void)Run({{Rows(1, 0, kMaxRows + 1, false)}}),
               "rows=25 max_rows=24");
  StepItem part = Rows(1, 0, 4, false);
  part.end_layer = 1;
  EXPECT_DEATH((void)Run({{part}}), "options do not say so");
}

TEST_F(RunnerTest, AFailedDeviceIsTheStepsError) {
  MakeRunner(/*layer_ranges=*/false);
  Add(1, 9, 5);
  backend_.on_wait = [] {
    return MakeError(ErrorCode::kResourceExhausted, "cpu: 3 of 2 GiB");
  };
  const Result<StepOutput> failed = Run({{Rows(1, 0, 5, true)}});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(failed.error().message, "cpu: 3 of 2 GiB");
}

}  // namespace
}  // namespace winnow
