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
  // Whether the last step waited for has one behind it, that has not drawn.
  bool is_ahead() const { return is_ahead_; }

  void Replay(Queue& queue, std::span<const std::byte> key,
              const std::function<void()>& enqueue) override {
    real().Replay(queue, key, enqueue);
    launched_ = true;
    is_ahead_ = false;
  }
  void Sample(Queue& queue, const SampleArgs& args) override {
    real().Sample(queue, args);
    launched_ = is_ahead_ = false;
  }
  Status Wait(Event event, std::chrono::milliseconds timeout) override {
    num_ahead += launched_ ? 1 : 0;
    is_ahead_ = is_ahead_ || launched_;
    launched_ = false;
    return real().Wait(event, timeout);
  }

 private:
  bool launched_ = false;  // since the last draw
  bool is_ahead_ = false;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_AHEAD_COUNTER_H_
