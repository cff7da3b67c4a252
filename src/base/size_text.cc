#include "base/size_text.h"

#include <charconv>
#include <cmath>

namespace winnow {
namespace {

struct Unit {
  std::string_view name;
  int64_t factor;
};

constexpr Unit kByteUnits[] = {{"B", 1},
                               {"KiB", int64_t{1} << 10},
                               {"MiB", int64_t{1} << 20},
                               {"GiB", int64_t{1} << 30},
                               {"TiB", int64_t{1} << 40}};

// Splits "1.5GiB" into 1.5 and "GiB"; a negative value marks failure.
std::pair<double, std::string_view> SplitUnit(std::string_view text) {
  double value = -1;
  const auto [end, error] = std::from_chars(
      text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(value)) return {-1, {}};
  return {value, text.substr(static_cast<size_t>(end - text.data()))};
}

}  // namespace

Result<int64_t> ParseBytes(std::string_view text) {
  const auto [value, unit] = SplitUnit(text);
  if (value == 0 && unit.empty()) return 0;
  for (const Unit& known : kByteUnits) {
    if (value < 0 || unit != known.name) continue;
    const double num_bytes = value * static_cast<double>(known.factor);
    if (num_bytes > 0x1p62) break;
    return static_cast<int64_t>(num_bytes);
  }
  return MakeError(
      ErrorCode::kInvalidArgument,
      "size must be a number with B, KiB, MiB, GiB or TiB (\"64MiB\"), is "
      "\"{}\"",
      text);
}

Result<int64_t> ParseTokens(std::string_view text) {
  const auto [value, unit] = SplitUnit(text);
  int64_t factor = 1;
  if (unit == "K") factor = 1 << 10;
  if (unit == "M") factor = 1 << 20;
  if (unit == "k") factor = 1000;
  if (unit == "m") factor = 1'000'000;
  // What is no binary fraction, as 1.001k, is whole but for rounding.
  constexpr double kRounding = 1e-6;
  const double amount = value * static_cast<double>(factor);
  const double tokens = std::round(amount);
  const bool unit_known = unit.empty() || factor != 1;
  if (value < 0 || !unit_known || std::abs(amount - tokens) > kRounding ||
      tokens > 0x1p40) {
    return MakeError(
        ErrorCode::kInvalidArgument,
        "amount of tokens must be a whole number, K or M (\"4K\"), k or m "
        "(\"4k\", thousands), is \"{}\"",
        text);
  }
  return static_cast<int64_t>(tokens);
}

std::string FormatBytes(int64_t num_bytes) {
  size_t unit = 0;
  double value = static_cast<double>(num_bytes);
  while (value >= 1024 && unit + 1 < std::size(kByteUnits)) {
    value /= 1024;
    ++unit;
  }
  const bool whole = unit == 0 || value >= 100;
  return whole ? fmt::format("{:.0f} {}", value, kByteUnits[unit].name)
               : fmt::format("{:.1f} {}", value, kByteUnits[unit].name);
}

}  // namespace winnow
