// FetchBytes: what is read soon, wherever it begins within a line.
#ifndef WINNOW_BACKEND_CPU_FETCH_BYTES_H_
#define WINNOW_BACKEND_CPU_FETCH_BYTES_H_

#include <cstddef>
#include <cstdint>

namespace winnow {

// The cache level that is fetched into, as __builtin_prefetch has it.
inline constexpr int kFirstLevel = 3;
inline constexpr int kSecondLevel = 2;

template <int kLevel>
void FetchBytes(const std::byte* bytes, int64_t count) {
  constexpr int64_t kLineBytes = 64;
  const auto in_line =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(bytes) % kLineBytes);
  for (int64_t at = -in_line; at < count; at += kLineBytes) {
    __builtin_prefetch(bytes + at, 0, kLevel);
  }
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_FETCH_BYTES_H_
