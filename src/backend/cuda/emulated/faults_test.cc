// Calls that a device may refuse are refused, each in its turn: every one of
// them must end in an error that says so.
#include <gtest/gtest.h>

#include "backend/conformance/sparse_case.h"
#include "backend/cuda/emulated/faulty_backend.h"

namespace winnow {
namespace {

using emulated::FailCall;
using emulated::RefusedCall;
using emulated::SetArmed;

TEST(CudaFaultsTest, ADeviceThatGivesNothingIsAnError) {
  for (int index = 0;; ++index) {
    FailCall(index);
    SetArmed(true);
    bool ok = true;
    std::string message;
    const auto keep = [&](const auto& result) {
      if (result.ok()) return;
      ok = false;
      message = result.error().message;
    };
    {
      Result<std::unique_ptr<Backend>> backend =
          StartCudaBackend(FaultyBackend::Options());
      keep(backend);
      if (backend.ok()) {
        keep((*backend)->Allocate(Tier::kDevice, 1000, "the pool"));
        keep((*backend)->Allocate(Tier::kHost, 1000, "the arena"));
      }
    }
    SetArmed(false);
    const std::string refused(RefusedCall());
    FailCall(-1);
    EXPECT_EQ(ok, refused.empty()) << refused;
    if (refused.empty()) {
      EXPECT_GT(index, 10);
      return;
    }
    EXPECT_TRUE(message.starts_with("cuda:0: ") ||
                message.find("bytes of") != std::string::npos)
        << refused << ": " << message;
  }
}

TEST(CudaFaultsTest, AVerbThatCannotBeLaunchedIsAnError) {
  for (const uint64_t seed : {1, 2}) {
    RandomSource random(seed);
    const SparseCase sparse = RandomSparseCase(random, 70);
    EXPECT_FALSE(FailEachCall([&](TestDevice& device) {
                   RunSparse(device, sparse, {.select_rows = 4});
                 }).empty());
  }
}

TEST(CudaFaultsTest, AVerbOfRowsThatCannotBeLaunchedIsAnError) {
  RandomSource random(1);
  constexpr int kRows = 3, kSize = 640;
  const auto draw = [&](std::vector<int64_t> shape) {
    return RandomArray(Dtype::kBFloat16, std::move(shape), random);
  };
  const TestArray table = draw({9, kSize}), weight = draw({kSize});
  const TestArray gate = draw({32, kSize}), up = draw({32, kSize});
  const std::vector<int32_t> ids = {4, 0, 8};
  const std::vector<std::string> failed = FailEachCall([&](TestDevice& device) {
    Backend& backend = device.backend();
    Queue& queue = device.queue();
    const View of_ids = device.Upload(Int32Array(ids));
    const View hidden = device.Output(Dtype::kFloat32, {kRows, kSize});
    const View x = device.Output(Dtype::kBFloat16, {kRows, kSize});
    const View outs[] = {device.Output(Dtype::kBFloat16, {kRows, 32}),
                         device.Output(Dtype::kBFloat16, {kRows, 32})};
    backend.Embed(queue, {.token_ids = of_ids,
                          .table = device.Upload(table),
                          .scale = 1,
                          .out = hidden});
    backend.RmsNorm(queue, {.x = hidden,
                            .weight = device.Upload(weight),
                            .epsilon = 1e-5f,
                            .out = x});
    const LinearPart parts[] = {
        {.weight = DenseMatrix(device.Upload(gate)),
         .bias = {},
         .out = outs[0]},
        {.weight = DenseMatrix(device.Upload(up)), .bias = {}, .out = outs[1]}};
    for (const bool batch_invariant : {false, true}) {
      backend.Linear(queue, {.x = x,
                             .parts = parts,
                             .residual = {},
                             .batch_invariant = batch_invariant});
    }
    backend.GatedAct(queue, {.activation = Activation::kSilu,
                             .gate = outs[0],
                             .up = outs[1],
                             .out = outs[0]});
    backend.GatherRows(queue,
                       {.x = x,
                        .indices = device.Upload(Int32Array({2, 1})),
                        .out = device.Output(Dtype::kBFloat16, {2, kSize})});
    (void)device.Download(outs[0]);
  });
  EXPECT_GT(failed.size(), 30u);
}

TEST(CudaFaultsTest, AStepThatCannotBeRecordedOrTimedIsAnError) {
  RandomSource random(1);
  const TestArray x = RandomArray(Dtype::kFloat32, {5, 600}, random);
  const TestArray weight = RandomArray(Dtype::kFloat32, {600}, random);
  const std::vector<std::string> failed = FailEachCall([&](TestDevice& device) {
    RmsNormArgs args;
    args.x = device.Upload(x);
    args.weight = device.Upload(weight);
    args.out = device.Output(Dtype::kFloat32, {5, 600});
    const auto norm = [&] { device.backend().RmsNorm(device.queue(), args); };
    const std::string key = "a step";
    const auto step = [&] {
      device.backend().Replay(device.queue(), std::as_bytes(std::span(key)),
                              norm);
    };
    step();
    step();
    (void)device.backend().Profile(device.queue(), norm);
    (void)device.backend().Profile(device.queue(), step);
    (void)device.Download(args.out);
  });
  EXPECT_GT(failed.size(), 20u);
}

}  // namespace
}  // namespace winnow
