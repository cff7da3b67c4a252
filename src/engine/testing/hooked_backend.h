// A backend for tests: another one whose device can be made to fail.
#ifndef WINNOW_ENGINE_TESTING_HOOKED_BACKEND_H_
#define WINNOW_ENGINE_TESTING_HOOKED_BACKEND_H_

#include <functional>
#include <optional>

#include "backend/forwarding.h"

namespace winnow {

// Passes every call on, and calls the hooks that are set. Header only: tests
// alone include it.
class HookedBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  std::function<Status()> on_wait;                     // instead of waiting
  std::function<void(const LinearArgs&)> pre_linear;   // before the op
  std::function<void(const LinearArgs&)> post_linear;  // behind it
  std::function<void(const SampleArgs&)> pre_sample;
  std::function<void(const EmbedArgs&)> pre_embed;
  std::function<void(const View& from, const View& to)> pre_copy;
  std::function<void()> pre_summarize;
  std::function<void(const SelectArgs&)> pre_select;
  std::function<void(const SelectArgs&)> post_select;  // behind the op
  std::function<void(const FetchArgs&)> pre_fetch;
  std::function<void(std::span<const std::byte> key)> pre_replay;

  std::optional<BackendAttributes> given_attributes;  // instead of its own

  const BackendAttributes& attributes() const override {
    return given_attributes ? *given_attributes : real().attributes();
  }
  Status Wait(Event event, std::chrono::milliseconds timeout) override {
    return on_wait ? on_wait() : real().Wait(event, timeout);
  }
  void Copy(Queue& queue, const View& from, const View& to) override {
    if (pre_copy) pre_copy(from, to);
    real().Copy(queue, from, to);
  }
  void Embed(Queue& queue, const EmbedArgs& args) override {
    if (pre_embed) pre_embed(args);
    real().Embed(queue, args);
  }
  void Replay(Queue& queue, std::span<const std::byte> key,
              const std::function<void()>& enqueue) override {
    if (pre_replay) pre_replay(key);
    real().Replay(queue, key, enqueue);
  }
  void Linear(Queue& queue, const LinearArgs& args) override {
    if (pre_linear) pre_linear(args);
    real().Linear(queue, args);
    if (post_linear) post_linear(args);
  }
  void Summarize(Queue& queue, const LayerStep& step, const SummarizeArgs& args,
                 const LayerCache& cache) override {
    if (pre_summarize) pre_summarize();
    real().Summarize(queue, step, args, cache);
  }
  void Select(Queue& queue, const LayerStep& step, const SelectArgs& args,
              const LayerCache& cache) override {
    if (pre_select) pre_select(args);
    real().Select(queue, step, args, cache);
    if (post_select) post_select(args);
  }
  void Fetch(Queue& queue, const LayerStep& step, const FetchArgs& args,
             const LayerCache& cache) override {
    if (pre_fetch) pre_fetch(args);
    real().Fetch(queue, step, args, cache);
  }
  void Sample(Queue& queue, const SampleArgs& args) override {
    if (pre_sample) pre_sample(args);
    real().Sample(queue, args);
  }
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_TESTING_HOOKED_BACKEND_H_
