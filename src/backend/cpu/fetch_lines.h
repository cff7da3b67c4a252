// FetchToRead, FetchToWrite: memory that is read or written soon, wherever it
// begins within a line.
#ifndef WINNOW_BACKEND_CPU_FETCH_LINES_H_
#define WINNOW_BACKEND_CPU_FETCH_LINES_H_

#include <cstdint>

namespace winnow {

// The cache level that is fetched into, as __builtin_prefetch has it.
inline constexpr int kFirstLevel = 3;
inline constexpr int kSecondLevel = 2;

// fetch(line) for the lines of numbers[0, count).
template <typename T, typename Fetch>
void ForEachLine(const T* numbers, int64_t count, const Fetch& fetch) {
  constexpr uintptr_t kLineBytes = 64;
  const auto begin = reinterpret_cast<uintptr_t>(numbers);
  const auto end = reinterpret_cast<uintptr_t>(numbers + count);
  for (uintptr_t line = begin / kLineBytes * kLineBytes; line < end;
       line += kLineBytes) {
    fetch(reinterpret_cast<const void*>(line));
  }
}

// Fetches the lines of numbers[0, count). Not by __builtin_prefetch: GCC 12
// holds a function that does nothing else for one without effect, and leaves
// out its calls.
template <int kLevel, typename T>
void FetchToRead(const T* numbers, int64_t count) {
  static_assert(kLevel == kFirstLevel || kLevel == kSecondLevel);
  ForEachLine(numbers, count, [](const void* line) {
    if constexpr (kLevel == kFirstLevel) {
      asm volatile("prefetcht0 %a0" : : "p"(line));
    } else {
      asm volatile("prefetcht1 %a0" : : "p"(line));
    }
  });
}

// Likewise, so that no write of one waits for it: they may be in memory, or
// with the core that has read them last.
template <typename T>
void FetchToWrite(const T* numbers, int64_t count) {
  ForEachLine(numbers, count, [](const void* line) {
    // What this is compiled for need not have it; a CPU that has not passes
    // over it.
    asm volatile("prefetchw %a0" : : "p"(line));
  });
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_FETCH_LINES_H_
