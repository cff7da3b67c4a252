#include "bench/bench_device_step.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// The same code that measures a GPU, on the CPU.
class BenchDeviceStepTest : public testing::Test {
 protected:
  static DeviceStepOptions Options() {
    DeviceStepOptions options;
    options.engine.device = "cpu";
    options.engine.max_num_batched_tokens = 32;
    options.generated_tokens = 2;
    options.rounds = 2;
    return options;
  }

  const std::unique_ptr<Model> model_ =
      LoadTinyModel(ReadTinyCase("llama"), Dtype::kBFloat16);
};

TEST_F(BenchDeviceStepTest, ARowSaysWhatAStepIsMadeOf) {
  const auto backend =
      PromptlessBackend::Create(MakeCpuBackend({.num_threads = 1}), *model_, 32)
          .value();
  for (const char* select : {"dense", "mean:budget=32"}) {
    const auto row =
        MeasureDeviceStep(*backend, *model_, Options(),
                          {.select = select, .context_tokens = 100, .batch = 3})
            .value();
    EXPECT_EQ(row["select"], select);
    EXPECT_EQ(row["batch"], 3);
    EXPECT_GT(row["recorded_ms"].get<double>(), 0);
    EXPECT_GT(row["tpot_ms"].get<double>(), 0);
    EXPECT_NEAR(row["host_ms"].get<double>(),
                row["tpot_ms"].get<double>() - row["recorded_ms"].get<double>(),
                1e-9);
    int count = 0;
    for (const auto& launch : row["by_launch"]) {
      count += launch["count"].get<int>();
    }
    EXPECT_EQ(row["launches"], count);
    EXPECT_LT(row["gap_us_a_layer"].get<double>(),
              row["most_gap_us_a_layer"].get<double>());
    EXPECT_NE(DeviceStepLine(row).find(select), std::string::npos);
  }
}

// Counts products, to see which steps compute.
class CountingBackend final : public ForwardingBackend {
 public:
  explicit CountingBackend(int* count)
      : ForwardingBackend(MakeCpuBackend({.num_threads = 1})), count_(count) {}
  void Linear(Queue& queue, const LinearArgs& args) override {
    ++*count_;
    real().Linear(queue, args);
  }

 private:
  int* count_;
};

TEST_F(BenchDeviceStepTest, PromptsAreLeftOutAndStepsAreComputed) {
  int products = 0;
  const auto backend =
      PromptlessBackend::Create(std::make_unique<CountingBackend>(&products),
                                *model_, 32)
          .value();
  const BenchCell cell = {.select = "dense", .context_tokens = 100, .batch = 1};
  const auto options =
      EngineOptionsOf(cell, Options().engine, *model_, 16).value();
  const auto engine = Engine::Create(*backend, *model_, options).value();
  CellRequests requests(*engine);
  ASSERT_TRUE(
      requests.Add(cell, 16, model_->config().vocab_size, /*seed=*/0).ok());
  backend->LeaveOut();
  ASSERT_TRUE(requests.StepUntilAllGenerate().ok());
  EXPECT_EQ(products, 1);  // The logits of the first token.
  backend->Compute();
  products = 0;
  ASSERT_TRUE(engine->Step().value());
  const int of_a_step = products;
  EXPECT_EQ(of_a_step, 4 * model_->config().num_layers + 1);
  EXPECT_FALSE(backend->TakeTimes().value().has_value());
  products = 0;
  backend->MeasureNextStep(3);
  ASSERT_TRUE(engine->Step().value());
  // As it may be new, three times, twice launch by launch, and as it is.
  EXPECT_EQ(products, of_a_step * 7);
  const auto times = backend->TakeTimes().value();
  ASSERT_TRUE(times.has_value());
  EXPECT_FALSE(times->launches.empty());
  EXPECT_FALSE(backend->TakeTimes().value().has_value());
  products = 0;
  ASSERT_TRUE(engine->Step().value());
  EXPECT_EQ(products, of_a_step);
}

}  // namespace
}  // namespace winnow
