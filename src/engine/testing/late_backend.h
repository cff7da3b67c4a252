// A backend for tests: the CPU's ops, run as late as a device may run them.
#ifndef WINNOW_ENGINE_TESTING_LATE_BACKEND_H_
#define WINNOW_ENGINE_TESTING_LATE_BACKEND_H_

#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "backend/forwarding.h"

namespace winnow {

// Keeps what is enqueued and runs it in its order: when it is waited for, or
// some of it at any call, as drawn. An op's arguments are taken when it is
// enqueued, and the memory that they name is read when it runs: so what the
// host writes too early or reads too soon, shows. One queue. Header only: tests
// alone include it.
class LateBackend final : public ForwardingBackend {
 public:
  // `eagerness`: of the calls, the share at which some of what waits is run.
  LateBackend(std::unique_ptr<Backend> real, uint32_t seed, double eagerness)
      : ForwardingBackend(std::move(real)),
        attributes_(ForwardingBackend::attributes()),
        random_(seed),
        eagerness_(eagerness) {
    attributes_.runs_behind = true;
  }

  std::function<Status()> on_wait;  // before the host waits; may fail
  int num_embedded() const { return num_embedded_; }  // calls, run or not

  const BackendAttributes& attributes() const override { return attributes_; }
  Event Record(Queue&) override { return {num_enqueued_}; }
  Status Wait(Event event, std::chrono::milliseconds) override {
    if (on_wait) RETURN_IF_ERROR(on_wait());
    RunUpTo(event.ticket);
    return Ok{};
  }
  void Replay(Queue&, std::span<const std::byte>,
              const std::function<void()>& enqueue) override {
    enqueue();
  }

  void Copy(Queue& queue, const View& from, const View& to) override {
    Keep([this, &queue, from, to] { real().Copy(queue, from, to); });
  }
  void Embed(Queue& queue, const EmbedArgs& args) override {
    ++num_embedded_;
    Keep([this, &queue, args] { real().Embed(queue, args); });
  }
  void RmsNorm(Queue& queue, const RmsNormArgs& args) override {
    Keep([this, &queue, args] { real().RmsNorm(queue, args); });
  }
  void Linear(Queue& queue, const LinearArgs& args) override {
    Keep([this, &queue, args = args, parts = Copied(args.parts)]() mutable {
      args.parts = parts;
      real().Linear(queue, args);
    });
  }
  void RotaryAngles(Queue& queue, const LayerStep& step,
                    const RotaryAnglesArgs& args) override {
    Keep(
        [this, &queue, step, args] { real().RotaryAngles(queue, step, args); });
  }
  void GatedAct(Queue& queue, const GatedActArgs& args) override {
    Keep([this, &queue, args] { real().GatedAct(queue, args); });
  }
  void Append(Queue& queue, const LayerStep& step, const TokenInputs& inputs,
              const LayerCache& cache) override {
    Keep([this, &queue, step, inputs, cache] {
      real().Append(queue, step, inputs, cache);
    });
  }
  void Summarize(Queue& queue, const LayerStep& step, const SummarizeArgs& args,
                 const LayerCache& cache) override {
    Keep([this, &queue, step, args = args, cache,
          selectors = Copied(args.selectors)]() mutable {
      args.selectors = selectors;
      real().Summarize(queue, step, args, cache);
    });
  }
  void ClusterKeys(Queue& queue, const LayerStep& step,
                   const ClusterKeysArgs& args,
                   const LayerCache& cache) override {
    Keep([this, &queue, step, args = args, cache,
          selectors = Copied(args.selectors)]() mutable {
      args.selectors = selectors;
      real().ClusterKeys(queue, step, args, cache);
    });
  }
  void Select(Queue& queue, const LayerStep& step, const SelectArgs& args,
              const LayerCache& cache) override {
    Keep([this, &queue, step, args = args, cache,
          selectors = Copied(args.selectors),
          slots = Copied(args.next.slots)]() mutable {
      args.selectors = selectors;
      if (args.next.slots != nullptr) args.next.slots = &slots;
      real().Select(queue, step, args, cache);
    });
  }
  void Fetch(Queue& queue, const LayerStep& step, const FetchArgs& args,
             const LayerCache& cache) override {
    Keep([this, &queue, step, args = args, cache,
          selectors = Copied(args.source.selectors),
          slots = Copied(args.slots)]() mutable {
      args.source.selectors = selectors;
      args.slots = &slots;
      real().Fetch(queue, step, args, cache);
    });
  }
  void Attend(Queue& queue, const LayerStep& step, const AttendArgs& args,
              const LayerCache& cache) override {
    std::vector<std::vector<LayerSelector>> selectors;
    for (const AttendSource& source : args.sources) {
      selectors.push_back(Copied(source.selectors));
    }
    Keep([this, &queue, step, args = args, cache,
          sources = Copied(args.sources), selectors = std::move(selectors),
          slots = Copied(args.slots)]() mutable {
      for (size_t i = 0; i < sources.size(); ++i) {
        sources[i].selectors = selectors[i];
      }
      args.sources = sources;
      if (args.slots != nullptr) args.slots = &slots;
      real().Attend(queue, step, args, cache);
    });
  }
  void MergeStates(Queue& queue, const LayerStep& step,
                   const MergeStatesArgs& args) override {
    Keep([this, &queue, step, args = args, outs = Copied(args.outs),
          lses = Copied(args.lses)]() mutable {
      args.outs = outs;
      args.lses = lses;
      real().MergeStates(queue, step, args);
    });
  }
  void GatherRows(Queue& queue, const GatherRowsArgs& args) override {
    Keep([this, &queue, args] { real().GatherRows(queue, args); });
  }
  void Sample(Queue& queue, const SampleArgs& args) override {
    Keep([this, &queue, args] { real().Sample(queue, args); });
  }
  void CopyPagePrefixes(Queue& queue,
                        const CopyPagePrefixesArgs& args) override {
    Keep([this, &queue, args = args, layers = Copied(args.layers),
          copies = Copied(args.copies)]() mutable {
      args.layers = layers;
      args.copies = copies;
      real().CopyPagePrefixes(queue, args);
    });
  }

 private:
  template <typename T>
  static std::vector<T> Copied(std::span<const T> values) {
    return {values.begin(), values.end()};
  }
  static SlotTable Copied(const SlotTable* slots) {
    return slots == nullptr ? SlotTable() : *slots;
  }
  void Keep(std::function<void()> op) {
    waiting_.push_back(std::move(op));
    ++num_enqueued_;
    if (!std::bernoulli_distribution(eagerness_)(random_)) return;
    const uint64_t num_run = num_enqueued_ - waiting_.size();
    RunUpTo(std::uniform_int_distribution<uint64_t>(num_run,
                                                    num_enqueued_)(random_));
  }
  void RunUpTo(uint64_t ticket) {
    while (!waiting_.empty() && num_enqueued_ - waiting_.size() < ticket) {
      const std::function<void()> op = std::move(waiting_.front());
      waiting_.pop_front();
      op();
    }
  }

  BackendAttributes attributes_;
  std::mt19937 random_;
  const double eagerness_;
  std::deque<std::function<void()>> waiting_;
  uint64_t num_enqueued_ = 0;
  int num_embedded_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_TESTING_LATE_BACKEND_H_
