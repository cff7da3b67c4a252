#include "backend/cuda/emulated/fiber.h"

#include <sys/mman.h>

#include <cstdint>

#include "base/check.h"

// Keeps the registers that a call keeps (System V ABI, x86-64), stores the
// stack pointer at *save, and goes on where `load` was stored.
extern "C" void WinnowSwitchStacks(void** save, void* load);
asm(R"(
.text
.globl WinnowSwitchStacks
.type WinnowSwitchStacks, @function
WinnowSwitchStacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size WinnowSwitchStacks, .-WinnowSwitchStacks
# A first switch "returns" here, with the fiber in a kept register.
.globl WinnowBeginStack
.type WinnowBeginStack, @function
WinnowBeginStack:
  movq %r12, %rdi
  callq *%r13
  ud2
.size WinnowBeginStack, .-WinnowBeginStack
)");
extern "C" void WinnowBeginStack();

namespace winnow::emulated {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;  // touched page by page

}  // namespace

Fiber::Fiber() {
  void* stack =
      mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  CHECK(stack != MAP_FAILED, "no stack of {} bytes", kStackBytes);
  stack_ = static_cast<std::byte*>(stack);
  // What WinnowSwitchStacks takes from a stack: r15, r14, r13, r12, rbx, rbp,
  // where to go; the stack is then at a multiple of 16, as before a call.
  auto* top = reinterpret_cast<uintptr_t*>(stack_ + kStackBytes) - 2;
  *--top = reinterpret_cast<uintptr_t>(&WinnowBeginStack);
  *--top = 0;
  *--top = 0;
  *--top = reinterpret_cast<uintptr_t>(this);
  *--top = reinterpret_cast<uintptr_t>(&Fiber::Run);
  *--top = 0;
  *--top = 0;
  own_ = top;
}
Fiber::~Fiber() { munmap(stack_, kStackBytes); }

void Fiber::Run(Fiber* fiber) {
  while (true) {
    fiber->body_(fiber->of_);
    fiber->Suspend();
  }
}

void Fiber::Begin(Body body, void* of) {
  body_ = body;
  of_ = of;
}
void Fiber::Resume() { WinnowSwitchStacks(&caller_, own_); }
void Fiber::Suspend() { WinnowSwitchStacks(&own_, caller_); }

}  // namespace winnow::emulated
