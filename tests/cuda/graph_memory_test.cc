// What the driver takes for graphs, beside what is said of it. Nobody else may
// use the device meanwhile.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "backend/conformance/test_array.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/runtime/replays.h"

namespace winnow {
namespace {

// Of launches with the most arguments: a product whose inputs are split has
// three tensor maps. Twice as many as there is room for.
TEST(GraphMemoryTest, GraphsTakeWhatIsSaidOfThemAtMost) {
  constexpr int64_t kLaunchesAGraph = 256;
  CudaOptions options;
  options.graph_bytes = int64_t{64} << 20;
  TestDevice device(StartCudaBackend(options).value());
  RandomSource random(1);
  LinearPart part;
  part.weight = DenseMatrix(
      device.Upload(RandomArray(Dtype::kBFloat16, {64, 64}, random)));
  part.out = device.Output(Dtype::kBFloat16, {64, 64});
  LinearArgs args;
  args.x = device.Upload(RandomArray(Dtype::kBFloat16, {64, 64}, random));
  args.parts = {&part, 1};
  const auto record = [&](int64_t key) {
    device.backend().Replay(device.queue(), std::as_bytes(std::span(&key, 1)),
                            [&] {
                              for (int64_t i = 0; i < kLaunchesAGraph; ++i) {
                                device.backend().Linear(device.queue(), args);
                              }
                            });
  };
  const auto free_bytes = [&] {
    EXPECT_TRUE(device.backend()
                    .Wait(device.backend().Record(device.queue()),
                          std::chrono::seconds(60))
                    .ok());
    size_t free = 0, total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    return static_cast<int64_t>(free);
  };
  record(-1);  // Loads the code.
  const int64_t before = free_bytes();
  const int64_t num_graphs =
      2 * options.graph_bytes / (kLaunchesAGraph * kGraphLaunchBytes);
  for (int64_t i = 0; i < num_graphs; ++i) record(i);
  const int64_t taken = before - free_bytes();
  RecordProperty("bytes_taken", static_cast<int>(taken));
  EXPECT_LE(taken, options.graph_bytes);
  // More than a quarter of it: no more is set aside than is of use.
  EXPECT_GE(taken, options.graph_bytes / 4);
}

}  // namespace
}  // namespace winnow
