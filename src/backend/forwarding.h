// Forwarding: a backend that is another one, for those that change a little.
#ifndef WINNOW_BACKEND_FORWARDING_H_
#define WINNOW_BACKEND_FORWARDING_H_

#include <memory>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace winnow {

// Passes every call on to the backend that it owns. Who derives from it says
// what of that is different.
class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> real)
      : real_(std::move(real)) {}

  const BackendAttributes& attributes() const override {
    return real_->attributes();
  }
  Result<Buffer> Allocate(Tier tier, size_t num_bytes,
                          std::string_view purpose) override {
    return real_->Allocate(tier, num_bytes, purpose);
  }
  std::unique_ptr<Queue> MakeQueue() override { return real_->MakeQueue(); }
  Event Record(Queue& queue) override { return real_->Record(queue); }
  Status Wait(Event event, std::chrono::milliseconds timeout) override {
    return real_->Wait(event, timeout);
  }
  void Copy(Queue& queue, const View& from, const View& to) override {
    real_->Copy(queue, from, to);
  }
  void Replay(Queue& queue, std::span<const std::byte> key,
              const std::function<void()>& enqueue) override {
    real_->Replay(queue, key, enqueue);
  }
  Result<std::vector<LaunchTime>> Profile(
      Queue& queue, const std::function<void()>& enqueue) override {
    return real_->Profile(queue, enqueue);
  }
  void Embed(Queue& queue, const EmbedArgs& args) override {
    real_->Embed(queue, args);
  }
  void RmsNorm(Queue& queue, const RmsNormArgs& args) override {
    real_->RmsNorm(queue, args);
  }
  void Linear(Queue& queue, const LinearArgs& args) override {
    real_->Linear(queue, args);
  }
  void RotaryAngles(Queue& queue, const LayerStep& step,
                    const RotaryAnglesArgs& args) override {
    real_->RotaryAngles(queue, step, args);
  }
  void GatedAct(Queue& queue, const GatedActArgs& args) override {
    real_->GatedAct(queue, args);
  }
  void Append(Queue& queue, const LayerStep& step, const TokenInputs& inputs,
              const LayerCache& cache) override {
    real_->Append(queue, step, inputs, cache);
  }
  void Summarize(Queue& queue, const LayerStep& step, const SummarizeArgs& args,
                 const LayerCache& cache) override {
    real_->Summarize(queue, step, args, cache);
  }
  void ClusterKeys(Queue& queue, const LayerStep& step,
                   const ClusterKeysArgs& args,
                   const LayerCache& cache) override {
    real_->ClusterKeys(queue, step, args, cache);
  }
  void Select(Queue& queue, const LayerStep& step, const SelectArgs& args,
              const LayerCache& cache) override {
    real_->Select(queue, step, args, cache);
  }
  void Fetch(Queue& queue, const LayerStep& step, const FetchArgs& args,
             const LayerCache& cache) override {
    real_->Fetch(queue, step, args, cache);
  }
  void Attend(Queue& queue, const LayerStep& step, const AttendArgs& args,
              const LayerCache& cache) override {
    real_->Attend(queue, step, args, cache);
  }
  void MergeStates(Queue& queue, const LayerStep& step,
                   const MergeStatesArgs& args) override {
    real_->MergeStates(queue, step, args);
  }
  void GatherRows(Queue& queue, const GatherRowsArgs& args) override {
    real_->GatherRows(queue, args);
  }
  void Sample(Queue& queue, const SampleArgs& args) override {
    real_->Sample(queue, args);
  }
  void CopyPagePrefixes(Queue& queue,
                        const CopyPagePrefixesArgs& args) override {
    real_->CopyPagePrefixes(queue, args);
  }

 protected:
  Backend& real() { return *real_; }
  const Backend& real() const { return *real_; }

 private:
  std::unique_ptr<Backend> real_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_FORWARDING_H_
