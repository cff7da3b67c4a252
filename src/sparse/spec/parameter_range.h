// ParameterRange: what the value of a SPEC's parameter may be. One table says
// it to people, to the check and to the tests.
#ifndef WINNOW_SPARSE_SPEC_PARAMETER_RANGE_H_
#define WINNOW_SPARSE_SPEC_PARAMETER_RANGE_H_

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace winnow {

// Plain data; made by the functions below.
struct ParameterRange {
  enum class Kind : uint8_t {
    kTokens,      // or any whole number
    kPowerOfTwo,  // tokens
    kOdd,         // a whole number
    kFraction,    // below `most`
    kAmount,      // tokens, or a share of the context in (0, 1]
    kChoice,      // one of `choices`
    kLayers,
  };
  Kind kind = Kind::kLayers;
  int64_t least = 0;  // kAmount: in tokens; 0: what forces no block may be none
  int64_t most = 0;
  std::span<const std::string_view> choices = {};
  bool or_auto = false;  // "auto": its reader knows
};

// In place of a greatest value: the model's context.
inline constexpr int64_t kWholeContext = std::numeric_limits<int64_t>::max();

constexpr ParameterRange TokensFrom(int64_t least,
                                    int64_t most = kWholeContext) {
  return {.kind = ParameterRange::Kind::kTokens, .least = least, .most = most};
}
constexpr ParameterRange PowerOfTwoFrom(int64_t least, int64_t most) {
  return {
      .kind = ParameterRange::Kind::kPowerOfTwo, .least = least, .most = most};
}
// The same, or "auto".
constexpr ParameterRange AutoOrPowerOfTwoFrom(int64_t least, int64_t most) {
  ParameterRange range = PowerOfTwoFrom(least, most);
  range.or_auto = true;
  return range;
}
constexpr ParameterRange OddFrom(int64_t least, int64_t most) {
  return {.kind = ParameterRange::Kind::kOdd, .least = least, .most = most};
}
// From 0 to below 1.
constexpr ParameterRange FractionBelowOne() {
  return {.kind = ParameterRange::Kind::kFraction, .least = 0, .most = 1};
}
// Tokens up to the context, or a share of it. What it must hold at least
// follows from other parameters (CheckAmounts of selector.cc).
constexpr ParameterRange AnAmount() {
  return {
      .kind = ParameterRange::Kind::kAmount, .least = 1, .most = kWholeContext};
}
// The same, or 0: none.
constexpr ParameterRange AnAmountOrNone() {
  return {
      .kind = ParameterRange::Kind::kAmount, .least = 0, .most = kWholeContext};
}
// REQUIRES: `choices` live as long as the program.
constexpr ParameterRange OneOf(std::span<const std::string_view> choices) {
  return {.kind = ParameterRange::Kind::kChoice, .choices = choices};
}
constexpr ParameterRange SomeLayers() { return {}; }

// What follows "must be": "a power of two from 8 to 65536". With a positive
// `context`, that number where the range ends with the context.
std::string RangeText(const ParameterRange& range, int64_t context = 0);

// Whether `text` is a value of the range; the message begins with `field`. What
// ends with the context is held to it where `is_given`: a default may be above
// a short context, and then means all of it. Layers are not looked at, nor is
// the least of a share: both are their reader's.
Status CheckRange(std::string_view field, std::string_view text,
                  const ParameterRange& range, int64_t context, bool is_given);

}  // namespace winnow

#endif  // WINNOW_SPARSE_SPEC_PARAMETER_RANGE_H_
