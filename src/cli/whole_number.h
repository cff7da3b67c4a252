// A flag's range, checked on what was typed.
#ifndef WINNOW_CLI_WHOLE_NUMBER_H_
#define WINNOW_CLI_WHOLE_NUMBER_H_

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <string>

namespace winnow {

// A check for CLI11's options, which would wrap a number that is too large or
// negative, or only say that it could not convert it.
inline auto WholeNumberIn(uint64_t least, uint64_t most) {
  return [least, most](const std::string& text) -> std::string {
    uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= least &&
        value <= most) {
      return {};
    }
    return fmt::format("must be a whole number in [{}, {}], is {}", least, most,
                       text);
  };
}

}  // namespace winnow

#endif  // WINNOW_CLI_WHOLE_NUMBER_H_
