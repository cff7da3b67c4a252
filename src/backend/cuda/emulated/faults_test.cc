// Calls that a device may refuse are refused, each in its turn: every one of
// them must end in an error that says so.
#include "backend/cuda/emulated/faults.h"

#include <gtest/gtest.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/forwarding.h"
#include "backend/sparse_case.h"

namespace winnow {
namespace {

using emulated::FailCall;
using emulated::RefusedCall;
using emulated::SetArmed;

CudaOptions Options() {
  CudaOptions options;
  options.workspace_bytes = size_t{4} << 20;
  return options;
}

// Lets calls fail within verbs, copies and waits. Once one has failed nothing
// is asked of the device any more, and whoever waits is told that all is well:
// the work at hand can go on, to nowhere.
class FaultyBackend final : public ForwardingBackend {
 public:
  FaultyBackend() : ForwardingBackend(StartCudaBackend(Options()).value()) {}

  // What the device itself says, unless a failed Profile has said it.
  Status Outcome(Queue& queue) {
    return real().Wait(real().Record(queue), std::chrono::seconds(1));
  }

  std::unique_ptr<Queue> MakeQueue() override {
    SetArmed(true);
    std::unique_ptr<Queue> queue = real().MakeQueue();
    SetArmed(false);
    return queue;
  }
  Event Record(Queue& queue) override {
    SetArmed(true);
    const Event event = real().Record(queue);
    SetArmed(false);
    return event;
  }
  Status Wait(Event event, std::chrono::milliseconds timeout) override {
    SetArmed(true);
    const Status status = real().Wait(event, timeout);
    SetArmed(false);
    EXPECT_EQ(status.ok(), RefusedCall().empty());
    return Ok{};
  }
  void Copy(Queue& queue, const View& from, const View& to) override {
    Try([&] { real().Copy(queue, from, to); });
  }
  void Replay(Queue& queue, std::span<const std::byte> key,
              const std::function<void()>& enqueue) override {
    Try([&] { real().Replay(queue, key, enqueue); });
  }
  Result<std::vector<LaunchTime>> Profile(
      Queue& queue, const std::function<void()>& enqueue) override {
    Result<std::vector<LaunchTime>> times = std::vector<LaunchTime>();
    Try([&] {
      times = real().Profile(queue, enqueue);
      EXPECT_EQ(times.ok(), RefusedCall().empty()) << RefusedCall();
    });
    return times;
  }
  void Embed(Queue& queue, const EmbedArgs& args) override {
    Try([&] { real().Embed(queue, args); });
  }
  void RmsNorm(Queue& queue, const RmsNormArgs& args) override {
    Try([&] { real().RmsNorm(queue, args); });
  }
  void Linear(Queue& queue, const LinearArgs& args) override {
    Try([&] { real().Linear(queue, args); });
  }
  void RotaryAngles(Queue& queue, const LayerStep& step,
                    const RotaryAnglesArgs& args) override {
    Try([&] { real().RotaryAngles(queue, step, args); });
  }
  void GatedAct(Queue& queue, const GatedActArgs& args) override {
    Try([&] { real().GatedAct(queue, args); });
  }
  void Append(Queue& queue, const LayerStep& step, const TokenInputs& inputs,
              const LayerCache& cache) override {
    Try([&] { real().Append(queue, step, inputs, cache); });
  }
  void Summarize(Queue& queue, const LayerStep& step, const SummarizeArgs& args,
                 const LayerCache& cache) override {
    Try([&] { real().Summarize(queue, step, args, cache); });
  }
  void Index(Queue& queue, const LayerStep& step, const IndexArgs& args,
             const LayerCache& cache) override {
    Try([&] { real().Index(queue, step, args, cache); });
  }
  void Select(Queue& queue, const LayerStep& step, const SelectArgs& args,
              const LayerCache& cache) override {
    Try([&] { real().Select(queue, step, args, cache); });
  }
  void Bring(Queue& queue, const LayerStep& step, const BringArgs& args,
             const LayerCache& cache) override {
    Try([&] { real().Bring(queue, step, args, cache); });
  }
  void Read(Queue& queue, const LayerStep& step, const ReadArgs& args,
            const LayerCache& cache) override {
    Try([&] { real().Read(queue, step, args, cache); });
  }
  void GatherRows(Queue& queue, const GatherRowsArgs& args) override {
    Try([&] { real().GatherRows(queue, args); });
  }
  void Sample(Queue& queue, const SampleArgs& args) override {
    Try([&] { real().Sample(queue, args); });
  }
  void Move(Queue& queue, const MoveArgs& args) override {
    Try([&] { real().Move(queue, args); });
  }

 private:
  template <typename Call>
  void Try(Call&& call) {
    if (!RefusedCall().empty()) return;
    const bool before = SetArmed(true);
    call();
    SetArmed(before);
  }
};

// Runs work(device) again and again, and lets one call after the other fail,
// until there is none left. Returns how many did.
template <typename Work>
int FailEachCall(Work&& work) {
  for (int index = 0;; ++index) {
    auto owned = std::make_unique<FaultyBackend>();
    FaultyBackend& backend = *owned;
    FailCall(index);
    TestDevice device(std::move(owned));
    work(device);
    const std::string refused(RefusedCall());
    FailCall(-1);
    if (refused.empty()) return index;
    const Status outcome = backend.Outcome(device.queue());
    EXPECT_FALSE(outcome.ok()) << index << ": " << refused;
    if (outcome.ok()) return index;
    EXPECT_TRUE(outcome.error().message.starts_with("cuda:0: "))
        << outcome.error().message;
    EXPECT_NE(outcome.error().message.find("cudaErrorInvalidValue"),
              std::string::npos)
        << outcome.error().message;
  }
}

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
      Result<std::unique_ptr<Backend>> backend = StartCudaBackend(Options());
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
    EXPECT_GT(FailEachCall([&](TestDevice& device) {
                RunSparse(device, sparse, {.select_rows = 4});
              }),
              0);
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
  const int failed = FailEachCall([&](TestDevice& device) {
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
        {.weight = device.Upload(gate), .bias = {}, .out = outs[0]},
        {.weight = device.Upload(up), .bias = {}, .out = outs[1]}};
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
  EXPECT_GT(failed, 30);
}

TEST(CudaFaultsTest, AStepThatCannotBeRecordedOrTimedIsAnError) {
  RandomSource random(1);
  const TestArray x = RandomArray(Dtype::kFloat32, {5, 600}, random);
  const TestArray weight = RandomArray(Dtype::kFloat32, {600}, random);
  const int failed = FailEachCall([&](TestDevice& device) {
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
  EXPECT_GT(failed, 20);
}

}  // namespace
}  // namespace winnow
