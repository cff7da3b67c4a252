// A backend for tests that tells how many steps were launched ahead.
#ifndef WINNOW_ENGINE_AHEAD_COUNTER_H_
#define WINNOW_ENGINE_AHEAD_COUNTER_H_

#include <chrono>
#include <functional>
#include <span>

#include "backend/forwarding.h"

namespace winnow {

// Counts steps that are waited for when the next one has been launched.
class AheadCounter final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  int num_ahead = 0;

  void Replay(Queue& queue, std::span<const std::byte> key,
              const std::function<void()>& enqueue) override {
    real().Replay(queue, key, enqueue);
    launched_ = true;
  }
  void Sample(Queue& queue, const SampleArgs& args) override {
    real().Sample(queue, args);
    launched_ = false;
  }
  Status Wait(Event event, std::chrono::milliseconds timeout) override {
    num_ahead += launched_ ? 1 : 0;
    launched_ = false;
    return real().Wait(event, timeout);
  }

 private:
  bool launched_ = false;  // since the last draw
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_AHEAD_COUNTER_H_
