// FetchRow: a token's numbers, which are read soon.
#ifndef WINNOW_BACKEND_CPU_FETCH_ROW_H_
#define WINNOW_BACKEND_CPU_FETCH_ROW_H_

#include <cstddef>
#include <cstdint>

namespace winnow {

// As __builtin_prefetch has it: the cache level that a row is fetched into.
inline constexpr int kFirstLevel = 3;
inline constexpr int kSecondLevel = 2;

template <int kLevel>
void FetchRow(const std::byte* row, int64_t num_bytes) {
  constexpr int64_t kLineBytes = 64;
  for (int64_t at = 0; at < num_bytes; at += kLineBytes) {
    __builtin_prefetch(row + at, 0, kLevel);
  }
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_FETCH_ROW_H_
