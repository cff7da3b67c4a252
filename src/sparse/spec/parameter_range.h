// ParameterRange: the valid values of a SPEC's parameter. One table serves help
// texts, checks and tests.
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
    kFraction,    // at least 0, below `most`
    kAmount,      // tokens, or a share of the context in (0, 1]
    kChoice,      // one of `choices`
    kLayers,
  };
  Kind kind = Kind::kLayers;
  // In tokens for kAmount; there 0 allows an amount that forces no block.
  int64_t least = 0;
  int64_t most = 0;
  std::span<const std::string_view> choices = {};
  bool or_auto = false;  // "auto" is valid too; the selector decides
};

// In place of a maximum: the model's context.
inline constexpr int64_t kWholeContext = std::numeric_limits<int64_t>::max();

constexpr ParameterRange TokensFrom(int64_t least,
                                    int64_t most = kWholeContext) {
  return {.kind = ParameterRange::Kind::kTokens, .least = least, .most = most};
}
constexpr ParameterRange PowerOfTwoFrom(int64_t least, int64_t most) {
  return {
      .kind = ParameterRange::Kind::kPowerOfTwo, .least = least, .most = most};
}
// As PowerOfTwoFrom, or "auto".
constexpr ParameterRange AutoOrPowerOfTwoFrom(int64_t least, int64_t most) {
  ParameterRange range = PowerOfTwoFrom(least, most);
  range.or_auto = true;
  return range;
}
constexpr ParameterRange OddFrom(int64_t least, int64_t most) {
  return {.kind = ParameterRange::Kind::kOdd, .least = least, .most = most};
}
// At least 0, below 1.
constexpr ParameterRange FractionBelowOne() {
  return {.kind = ParameterRange::Kind::kFraction, .least = 0, .most = 1};
}
// Tokens up to the context, or a share of it. Other parameters determine the
// minimum (CheckAmounts of selector.cc).
constexpr ParameterRange AnAmount() {
  return {
      .kind = ParameterRange::Kind::kAmount, .least = 1, .most = kWholeContext};
}
// As AnAmount, or 0 for none.
constexpr ParameterRange AnAmountOrNone() {
  return {
      .kind = ParameterRange::Kind::kAmount, .least = 0, .most = kWholeContext};
}
// REQUIRES: `choices` live as long as the program.
constexpr ParameterRange OneOf(std::span<const std::string_view> choices) {
  return {.kind = ParameterRange::Kind::kChoice, .choices = choices};
}
constexpr ParameterRange SomeLayers() { return {}; }

// The words behind "must be": "a power of two from 8 to 65536". A positive
// `context` replaces a maximum of kWholeContext.
std::string RangeText(const ParameterRange& range, int64_t context = 0);

// Fails if `text` is not a value of the range; the message begins with `field`.
// A maximum of kWholeContext is checked if `is_given`. A default may exceed a
// short context and then means all of it. Does not check layers, nor the
// minimum of a share; their readers do.
Status CheckRange(std::string_view field, std::string_view text,
                  const ParameterRange& range, int64_t context, bool is_given);

}  // namespace winnow

#endif  // WINNOW_SPARSE_SPEC_PARAMETER_RANGE_H_
