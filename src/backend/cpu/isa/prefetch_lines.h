// PrefetchToRead, PrefetchToWrite: memory that is read or written soon,
// wherever it begins within a line.
#ifndef WINNOW_BACKEND_CPU_ISA_PREFETCH_LINES_H_
#define WINNOW_BACKEND_CPU_ISA_PREFETCH_LINES_H_

#include <cstdint>

#include "backend/cpu/isa/prefetch_line.h"

namespace winnow {

// fetch(line) for the lines of numbers[0, count).
template <typename T, typename Prefetch>
void ForEachLine(const T* numbers, int64_t count, const Prefetch& prefetch) {
  constexpr uintptr_t kLineBytes = 64;
  const auto begin = reinterpret_cast<uintptr_t>(numbers);
  const auto end = reinterpret_cast<uintptr_t>(numbers + count);
  for (uintptr_t line = begin / kLineBytes * kLineBytes; line < end;
       line += kLineBytes) {
    prefetch(reinterpret_cast<const void*>(line));
  }
}

// Fetches the lines of numbers[0, count).
template <CacheLevel kLevel, typename T>
void PrefetchToRead(const T* numbers, int64_t count) {
  ForEachLine(numbers, count,
              [](const void* line) { PrefetchLine<kLevel>(line); });
}

// Likewise, so that no write of one waits for it: they may be in memory, or
// with the core that has read them last.
template <typename T>
void PrefetchToWrite(const T* numbers, int64_t count) {
  ForEachLine(numbers, count, [](const void* line) {
    // What this is compiled for need not have it; a CPU that has not passes
    // over it.
    asm volatile("prefetchw %a0" : : "p"(line));
  });
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_PREFETCH_LINES_H_
