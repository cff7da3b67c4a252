// FaultyBackend: a device whose calls are refused, each in its turn.
#ifndef WINNOW_BACKEND_CUDA_EMULATED_FAULTY_BACKEND_H_
#define WINNOW_BACKEND_CUDA_EMULATED_FAULTY_BACKEND_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/conformance/test_array.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/emulated/faults.h"
#include "backend/forwarding.h"

namespace winnow {

// Lets calls fail within ops, copies and waits. Once one has failed nothing
// is asked of the device any more, and whoever waits is told that all is well:
// the work at hand can go on, to nowhere.
class FaultyBackend final : public ForwardingBackend {
 public:
  static CudaOptions Options() {
    CudaOptions options;
    options.workspace_bytes = size_t{4} << 20;
    return options;
  }
  FaultyBackend() : ForwardingBackend(StartCudaBackend(Options()).value()) {}

  // What the device itself says, unless a failed Profile has said it.
  Status Outcome(Queue& queue) {
    return real().Wait(real().Record(queue), std::chrono::seconds(1));
  }

  std::unique_ptr<Queue> MakeQueue() override {
    emulated::SetArmed(true);
    std::unique_ptr<Queue> queue = real().MakeQueue();
    emulated::SetArmed(false);
    return queue;
  }
  Event Record(Queue& queue) override {
    emulated::SetArmed(true);
    const Event event = real().Record(queue);
    emulated::SetArmed(false);
    return event;
  }
  Status Wait(Event event, std::chrono::milliseconds timeout) override {
    emulated::SetArmed(true);
    const Status status = real().Wait(event, timeout);
    emulated::SetArmed(false);
    EXPECT_EQ(status.ok(), emulated::RefusedCall().empty());
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
      EXPECT_EQ(times.ok(), emulated::RefusedCall().empty())
          << emulated::RefusedCall();
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
  void ClusterKeys(Queue& queue, const LayerStep& step,
                   const ClusterKeysArgs& args,
                   const LayerCache& cache) override {
    Try([&] { real().ClusterKeys(queue, step, args, cache); });
  }
  void Select(Queue& queue, const LayerStep& step, const SelectArgs& args,
              const LayerCache& cache) override {
    Try([&] { real().Select(queue, step, args, cache); });
  }
  void Fetch(Queue& queue, const LayerStep& step, const FetchArgs& args,
             const LayerCache& cache) override {
    Try([&] { real().Fetch(queue, step, args, cache); });
  }
  void Attend(Queue& queue, const LayerStep& step, const AttendArgs& args,
              const LayerCache& cache) override {
    Try([&] { real().Attend(queue, step, args, cache); });
  }
  void MergeStates(Queue& queue, const LayerStep& step,
                   const MergeStatesArgs& args) override {
    Try([&] { real().MergeStates(queue, step, args); });
  }
  void GatherRows(Queue& queue, const GatherRowsArgs& args) override {
    Try([&] { real().GatherRows(queue, args); });
  }
  void Sample(Queue& queue, const SampleArgs& args) override {
    Try([&] { real().Sample(queue, args); });
  }
  void CopyPagePrefixes(Queue& queue,
                        const CopyPagePrefixesArgs& args) override {
    Try([&] { real().CopyPagePrefixes(queue, args); });
  }

 private:
  template <typename Call>
  void Try(Call&& call) {
    if (!emulated::RefusedCall().empty()) return;
    const bool before = emulated::SetArmed(true);
    call();
    emulated::SetArmed(before);
  }
};

// Runs work(device) again and again, and lets one call after the other fail,
// until there is none left. Returns what the device said of each.
template <typename Work>
std::vector<std::string> FailEachCall(Work&& work) {
  std::vector<std::string> outcomes;
  for (int index = 0;; ++index) {
    auto owned = std::make_unique<FaultyBackend>();
    FaultyBackend& backend = *owned;
    emulated::FailCall(index);
    TestDevice device(std::move(owned));
    work(device);
    const std::string refused(emulated::RefusedCall());
    emulated::FailCall(-1);
    if (refused.empty()) return outcomes;
    const Status outcome = backend.Outcome(device.queue());
    EXPECT_FALSE(outcome.ok()) << index << ": " << refused;
    if (outcome.ok()) return outcomes;
    const std::string& message = outcome.error().message;
    EXPECT_TRUE(message.starts_with("cuda:0: ")) << message;
    EXPECT_NE(message.find("cudaErrorInvalidValue"), std::string::npos)
        << message;
    outcomes.push_back(message);
  }
}

// Lets each call of work(device) fail, and looks for the launches among those
// that did.
template <typename Work>
void ExpectEachRefused(Work&& work,
                       std::initializer_list<std::string_view> launches) {
  const std::vector<std::string> outcomes = FailEachCall(work);
  for (const std::string_view launch : launches) {
    EXPECT_TRUE(std::ranges::any_of(
        outcomes,
        [&](const std::string& outcome) {
          return outcome.find(std::string(launch) + ":") != std::string::npos;
        }))
        << launch << " is not among " << outcomes.size();
  }
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_EMULATED_FAULTY_BACKEND_H_
