#include "sparse/spec/parameter_range.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "sparse/spec/spec.h"

namespace winnow {
namespace {

using Kind = ParameterRange::Kind;

Result<double> ValueOf(std::string_view field, std::string_view text,
                       const ParameterRange& range) {
  if (range.kind == Kind::kFraction) return ParseFraction(field, text);
  ASSIGN_OR_RETURN(const int tokens, ParseTokens(field, text));
  return static_cast<double>(tokens);
}

bool Holds(const ParameterRange& range, double value, double most) {
  const auto whole = static_cast<uint64_t>(std::max(value, 0.0));
  switch (range.kind) {
    case Kind::kPowerOfTwo:
      if (!std::has_single_bit(whole)) return false;
      break;
    case Kind::kOdd:
      if (whole % 2 == 0) return false;
      break;
    case Kind::kFraction:
      if (value >= most) return false;
      break;
    default:
      break;
  }
  return value >= static_cast<double>(range.least) && value <= most;
}

Status CheckAmount(std::string_view field, std::string_view text,
                   int64_t context, bool is_given) {
  ASSIGN_OR_RETURN(const Amount amount, ParseAmount(field, text));
  if (is_given && amount.unit == Amount::Unit::kTokens &&
      amount.value > static_cast<double>(context)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} must be at most the context of {} tokens, is {}",
                     field, context, static_cast<int64_t>(amount.value));
  }
  return Ok{};
}

}  // namespace

std::string RangeText(const ParameterRange& range, int64_t context) {
  std::string span = fmt::format("from {} to ", range.least);
  if (range.most != kWholeContext) {
    span += fmt::format("{}", range.most);
  } else {
    span +=
        context > 0 ? fmt::format("the context of {}", context) : "the context";
  }
  switch (range.kind) {
    case Kind::kTokens:
      return span;
    case Kind::kPowerOfTwo:
      return (range.or_auto ? "auto or a power of two " : "a power of two ") +
             span;
    case Kind::kOdd:
      return "odd, " + span;
    case Kind::kFraction:
      return fmt::format("from {} to below {}", range.least, range.most);
    case Kind::kAmount:
      return fmt::format(
          "{}tokens up to the context, or a share of it in (0, 1]",
          range.least == 0 ? "0, " : "");
    case Kind::kChoice:
      return fmt::format("one of {}", fmt::join(range.choices, ", "));
    case Kind::kLayers:
      return "layers (0-1, 0+5+31) or none";
  }
  CHECK(false, "kind={}", static_cast<int>(range.kind));
}

Status CheckRange(std::string_view field, std::string_view text,
                  const ParameterRange& range, int64_t context, bool is_given) {
  if (range.kind == Kind::kLayers) return Ok{};
  if (range.or_auto && text == "auto") return Ok{};
  if (range.kind == Kind::kAmount) {
    return CheckAmount(field, text, context, is_given);
  }
  if (range.kind == Kind::kChoice) {
    if (std::ranges::find(range.choices, text) != range.choices.end()) {
      return Ok{};
    }
    return MakeError(ErrorCode::kInvalidArgument, "{} must be {}, is \"{}\"",
                     field, RangeText(range), text);
  }
  ASSIGN_OR_RETURN(const double value, ValueOf(field, text, range));
  const bool is_bounded = range.most != kWholeContext || is_given;
  const int64_t most = range.most == kWholeContext ? context : range.most;
  const double bound = is_bounded ? static_cast<double>(most)
                                  : std::numeric_limits<double>::infinity();
  if (Holds(range, value, bound)) return Ok{};
  return MakeError(ErrorCode::kInvalidArgument, "{} must be {}, is {}", field,
                   RangeText(range, context), value);
}

}  // namespace winnow
