// FetchToWrite: memory that is written soon and read before.
#ifndef WINNOW_BACKEND_CPU_FETCH_TO_WRITE_H_
#define WINNOW_BACKEND_CPU_FETCH_TO_WRITE_H_

#include <cstdint>

namespace winnow {

// Fetches the lines of numbers[0, count), so that no write of one waits for it:
// they may be in memory, or with the core that has read them last.
template <typename T>
void FetchToWrite(const T* numbers, int64_t count) {
  constexpr int64_t kLineBytes = 64;
  static_assert(kLineBytes % sizeof(T) == 0);
  constexpr int64_t kInLine = kLineBytes / sizeof(T);
  for (int64_t i = 0; i < count; i += kInLine) {
    // What this is compiled for need not have it; a CPU that has not passes
    // over it.
    asm volatile("prefetchw %a0" : : "p"(numbers + i));
  }
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_FETCH_TO_WRITE_H_
