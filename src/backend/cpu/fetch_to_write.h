// FetchToWrite: memory that is written soon and read before.
#ifndef WINNOW_BACKEND_CPU_FETCH_TO_WRITE_H_
#define WINNOW_BACKEND_CPU_FETCH_TO_WRITE_H_

#include <cstdint>

namespace winnow {

// Fetches the lines of numbers[0, count), so that no write of one waits for it:
// they may be in memory, or with the core that has read them last.
template <typename T>
void FetchToWrite(const T* numbers, int64_t count) {
  constexpr uintptr_t kLineBytes = 64;
  const auto begin = reinterpret_cast<uintptr_t>(numbers);
  const auto end = reinterpret_cast<uintptr_t>(numbers + count);
  for (uintptr_t line = begin / kLineBytes * kLineBytes; line < end;
       line += kLineBytes) {
    // What this is compiled for need not have it; a CPU that has not passes
    // over it.
    asm volatile("prefetchw %a0" : : "p"(line));
  }
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_FETCH_TO_WRITE_H_
