#include "bench/bench_prompt.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// A CPU on which each op takes a time of its own, whatever it computes.
class TimedCpu final : public ForwardingBackend {
 public:
  TimedCpu() : ForwardingBackend(MakeCpuBackend({.num_threads = 1})) {}
  Result<std::vector<LaunchTime>> Profile(
      Queue& queue, const std::function<void()>& enqueue) override {
    if (fails) return MakeError(ErrorCode::kIo, "no clock");
    seconds_ = 0;
    enqueue();
    RETURN_IF_ERROR(real().Wait(real().Record(queue), std::chrono::minutes(1)));
    // Of two launches.
    return std::vector<LaunchTime>{{"first", seconds_ / 4},
                                   {"second", 3 * seconds_ / 4}};
  }
  void Linear(Queue& queue, const LinearArgs& args) override {
    seconds_ = 8;
    num_products += 1;
    real().Linear(queue, args);
  }
  void Attend(Queue& queue, const LayerStep& step, const AttendArgs& args,
              const LayerCache& cache) override {
    seconds_ = 16;
    real().Attend(queue, step, args, cache);
  }
  void Select(Queue& queue, const LayerStep& step, const SelectArgs& args,
              const LayerCache& cache) override {
    seconds_ = 32;
    real().Select(queue, step, args, cache);
  }
  void Embed(Queue& queue, const EmbedArgs& args) override {
    seconds_ = 64;
    real().Embed(queue, args);
  }

  bool fails = false;
  int num_products = 0;

 private:
  double seconds_ = 0;
};

class BenchPromptTest : public testing::Test {
 protected:
  BenchPromptTest() {
    auto cpu = std::make_unique<TimedCpu>();
    cpu_ = cpu.get();
    backend_ = std::make_unique<OpTimesBackend>(std::move(cpu));
    options_.engine.device = "cpu";
    options_.rounds = 2;
  }

  const std::unique_ptr<Model> model_ =
      LoadTinyModel(ReadTinyCase("llama"), Dtype::kBFloat16);
  TimedCpu* cpu_;
  std::unique_ptr<OpTimesBackend> backend_;
  PromptOptions options_;
};

TEST_F(BenchPromptTest, SharesAreThoseOfOpsOverAllChunks) {
  const double layers = model_->config().num_layers;
  const PromptCell cell = {
      .select = "dense", .prompt_tokens = 90, .chunk_tokens = 40};
  // Three chunks; the last has logits.
  const double products = 8 * (3 * 4 * layers + 1);
  const double reads = 16 * 3 * layers, embeds = 64 * 3;
  const double sum = products + reads + embeds;
  for (int time = 0; time < 2; ++time) {
    const auto row = MeasurePrompt(*backend_, *model_, options_, cell).value();
    EXPECT_EQ(row["select"], "dense");
    EXPECT_EQ(row["prompt"], 90);
    EXPECT_EQ(row["chunk"], 40);
    EXPECT_GT(row["first_token_ms"].get<double>(), 0);
    EXPECT_NEAR(row["tokens_per_second"].get<double>(),
                90e3 / row["first_token_ms"].get<double>(), 1e-6);
    EXPECT_NEAR(row["verbs_ms"].get<double>(), sum * 1e3, 1e-6);
    EXPECT_NEAR(row["products_share"].get<double>(), products / sum, 1e-9);
    EXPECT_NEAR(row["attention_share"].get<double>(), reads / sum, 1e-9);
    EXPECT_EQ(row["choices_share"].get<double>(), 0);
    EXPECT_NEAR(row["rest_share"].get<double>(), embeds / sum, 1e-9);
    EXPECT_NE(PromptLine(row).find("dense"), std::string::npos);
  }
}

TEST_F(BenchPromptTest, ChoicesHaveAShareOfTheirOwn) {
  const PromptCell cell = {.select = "moba:block=32,budget=64",
                           .prompt_tokens = 160,
                           .chunk_tokens = 40};
  ASSERT_TRUE(CheckPrompt(*backend_, *model_, options_, cell).ok());
  const auto row = MeasurePrompt(*backend_, *model_, options_, cell).value();
  EXPECT_GT(row["choices_share"].get<double>(), 0);
  EXPECT_GT(row["attention_share"].get<double>(), 0);
}

TEST_F(BenchPromptTest, EachRoundComputesThePromptAnew) {
  const PromptCell cell = {
      .select = "dense", .prompt_tokens = 64, .chunk_tokens = 64};
  ASSERT_TRUE(MeasurePrompt(*backend_, *model_, options_, cell).ok());
  // To warm up, two rounds, and once more op by op.
  EXPECT_EQ(cpu_->num_products, 4 * (4 * model_->config().num_layers + 1));
}

TEST_F(BenchPromptTest, ADeviceThatCannotTimeIsAnError) {
  cpu_->fails = true;
  const PromptCell cell = {
      .select = "dense", .prompt_tokens = 64, .chunk_tokens = 64};
  const auto row = MeasurePrompt(*backend_, *model_, options_, cell);
  ASSERT_FALSE(row.ok());
  EXPECT_EQ(row.error().message, "no clock");
  cpu_->fails = false;
  EXPECT_TRUE(MeasurePrompt(*backend_, *model_, options_, cell).ok());
}

}  // namespace
}  // namespace winnow
