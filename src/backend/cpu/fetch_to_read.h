// FetchToRead: memory that is read soon, wherever it begins within a line.
#ifndef WINNOW_BACKEND_CPU_FETCH_TO_READ_H_
#define WINNOW_BACKEND_CPU_FETCH_TO_READ_H_

#include <cstdint>

namespace winnow {

// The cache level that is fetched into, as __builtin_prefetch has it.
inline constexpr int kFirstLevel = 3;
inline constexpr int kSecondLevel = 2;

// Fetches the lines of numbers[0, count).
template <int kLevel, typename T>
void FetchToRead(const T* numbers, int64_t count) {
  constexpr uintptr_t kLineBytes = 64;
  const auto begin = reinterpret_cast<uintptr_t>(numbers);
  const auto end = reinterpret_cast<uintptr_t>(numbers + count);
  for (uintptr_t line = begin / kLineBytes * kLineBytes; line < end;
       line += kLineBytes) {
    __builtin_prefetch(reinterpret_cast<const void*>(line), 0, kLevel);
  }
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_FETCH_TO_READ_H_
