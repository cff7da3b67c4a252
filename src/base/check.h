// CHECK and DCHECK: state a condition that must hold, print the values, stop.
//
// A failed check is a bug in Winnow, never a user's mistake. User mistakes are
// Result values (base/result.h). CHECK(condition) or CHECK(condition, "n={}",
// n).
#ifndef WINNOW_BASE_CHECK_H_
#define WINNOW_BASE_CHECK_H_

#include <fmt/format.h>

#include <string_view>

namespace winnow::internal {

// Prints "file:line: CHECK failed: condition: values" to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view values);

inline std::string CheckValues() { return {}; }
template <typename... Args>
std::string CheckValues(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}

}  // namespace winnow::internal

#define CHECK(condition, ...)                            \
  do {                                                   \
    if (!(condition)) [[unlikely]] {                     \
      ::winnow::internal::CheckFailed(                   \
          __FILE__, __LINE__, #condition,                \
          ::winnow::internal::CheckValues(__VA_ARGS__)); \
    }                                                    \
  } while (false)

// A CHECK on a hot path: compiled always, evaluated in debug builds alone.
#define DCHECK(condition, ...)                     \
  do {                                             \
    if constexpr (::winnow::kDebugBuild) {         \
      CHECK(condition __VA_OPT__(, ) __VA_ARGS__); \
    }                                              \
  } while (false)

namespace winnow {
#ifdef NDEBUG
inline constexpr bool kDebugBuild = false;
#else
inline constexpr bool kDebugBuild = true;
#endif
}  // namespace winnow

#endif  // WINNOW_BASE_CHECK_H_
