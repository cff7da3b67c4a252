// Sizes and counts as users write them: 64MiB, 2GiB, 32K.
#ifndef WINNOW_BASE_SIZE_TEXT_H_
#define WINNOW_BASE_SIZE_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace winnow {

// Parses a SIZE in bytes: digits, an optional fraction, then B, KiB, MiB, GiB
// or TiB ("64MiB", "1.5GiB"). Refuses a number without a unit, except 0.
Result<int64_t> ParseBytes(std::string_view text);

// Parses an amount of tokens: "2048", "4K" (= 4096), "1M". Small letters are
// thousands, as in vLLM: "4k" (= 4000), "1m".
Result<int64_t> ParseTokens(std::string_view text);

// Formats bytes for people: "512 B", "1.5 MiB", "12 GiB".
std::string FormatBytes(int64_t num_bytes);

}  // namespace winnow

#endif  // WINNOW_BASE_SIZE_TEXT_H_
