// Fiber: a stack of its own, which runs until it suspends itself.
#ifndef WINNOW_BACKEND_CUDA_EMULATED_FIBER_H_
#define WINNOW_BACKEND_CUDA_EMULATED_FIBER_H_

#include <cstddef>

namespace winnow::emulated {

// Owns its stack. Runs one body after another, each from where it suspended
// itself to where it suspends itself again or returns. Made and resumed by one
// thread, which is no fiber.
class Fiber {
 public:
  using Body = void (*)(void* of);

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next Resume calls body(of). REQUIRES: the last body has returned.
  void Begin(Body body, void* of);
  // Runs until the body suspends itself or returns.
  void Resume();
  // Called by the body: goes back to who resumed it.
  void Suspend();

 private:
  static void Run(Fiber* fiber);

  std::byte* stack_;
  void* own_ = nullptr;     // stack pointer while suspended
  void* caller_ = nullptr;  // while it runs
  Body body_ = nullptr;
  void* of_ = nullptr;
};

}  // namespace winnow::emulated

#endif  // WINNOW_BACKEND_CUDA_EMULATED_FIBER_H_
