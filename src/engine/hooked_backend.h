// A backend for tests: another one whose device can be made to fail.
#ifndef WINNOW_ENGINE_HOOKED_BACKEND_H_
#define WINNOW_ENGINE_HOOKED_BACKEND_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "backend/backend.h"

namespace winnow {

// Passes every call on, and calls the hooks that are set. Owns the backend
// that it passes to. Header only: tests alone include it.
class HookedBackend final : public Backend {
 public:
  explicit HookedBackend(std::unique_ptr<Backend> real)
      : real_(std::move(real)) {}

  std::function<Status()> on_wait;                    // instead of waiting
  std::function<void(const LinearArgs&)> pre_linear;  // before the verb
  std::function<void(const SampleArgs&)> pre_sample;
  std::function<void(const EmbedArgs&)> pre_embed;
  std::function<void(const View& from, const View& to)> pre_copy;

  std::optional<BackendAttributes> given_attributes;  // instead of its own

  const BackendAttributes& attributes() const override {
    return given_attributes ? *given_attributes : real_->attributes();
  }
  Result<Buffer> Allocate(Tier tier, size_t num_bytes,
                          std::string_view purpose) override {
    return real_->Allocate(tier, num_bytes, purpose);
  }
  std::unique_ptr<Queue> MakeQueue() override { return real_->MakeQueue(); }
  Event Record(Queue& queue) override { return real_->Record(queue); }
  Status Wait(Event event, std::chrono::milliseconds timeout) override {
    return on_wait ? on_wait() : real_->Wait(event, timeout);
  }
  void Copy(Queue& queue, const View& from, const View& to) override {
    if (pre_copy) pre_copy(from, to);
    real_->Copy(queue, from, to);
  }
  void Replay(Queue& queue, std::span<const std::byte> key,
              const std::function<void()>& enqueue) override {
    real_->Replay(queue, key, enqueue);
  }
  void Embed(Queue& queue, const EmbedArgs& args) override {
    if (pre_embed) pre_embed(args);
    real_->Embed(queue, args);
  }
  void RmsNorm(Queue& queue, const RmsNormArgs& args) override {
    real_->RmsNorm(queue, args);
  }
  void Linear(Queue& queue, const LinearArgs& args) override {
    if (pre_linear) pre_linear(args);
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
  void Index(Queue& queue, const LayerStep& step, const IndexArgs& args,
             const LayerCache& cache) override {
    real_->Index(queue, step, args, cache);
  }
  void Select(Queue& queue, const LayerStep& step, const SelectArgs& args,
              const LayerCache& cache) override {
    real_->Select(queue, step, args, cache);
  }
  void Bring(Queue& queue, const LayerStep& step, const BringArgs& args,
             const LayerCache& cache) override {
    real_->Bring(queue, step, args, cache);
  }
  void Read(Queue& queue, const LayerStep& step, const ReadArgs& args,
            const LayerCache& cache) override {
    real_->Read(queue, step, args, cache);
  }
  void Combine(Queue& queue, const LayerStep& step,
               const CombineArgs& args) override {
    real_->Combine(queue, step, args);
  }
  void GatherRows(Queue& queue, const GatherRowsArgs& args) override {
    real_->GatherRows(queue, args);
  }
  void Sample(Queue& queue, const SampleArgs& args) override {
    if (pre_sample) pre_sample(args);
    real_->Sample(queue, args);
  }
  void Move(Queue& queue, const MoveArgs& args) override {
    real_->Move(queue, args);
  }

 private:
  std::unique_ptr<Backend> real_;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_HOOKED_BACKEND_H_
