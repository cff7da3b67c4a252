#include "sparse/spec/spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/ascii.h"
#include "base/size_text.h"

namespace winnow {
namespace {

Error SpecError(std::string_view text, std::string_view found) {
  return MakeError(ErrorCode::kInvalidArgument,
                   "--select must be name[:key=value[,key=value...]], is "
                   "\"{}\"; {}",
                   text, found);
}

// A whole or fractional number that is all of `text`; negative: it is none.
double NumberIn(std::string_view text) {
  double value = -1;
  const auto [end, error] = std::from_chars(
      text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  return error == std::errc() && end == text.data() + text.size() ? value : -1;
}

// A share in (0, 1]; negative where `text` is none.
double ShareIn(std::string_view text) {
  if (text.ends_with('%')) {
    text.remove_suffix(1);
    return NumberIn(text) / 100;
  }
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return -1;
  const double above = NumberIn(text.substr(0, slash));
  const double below = NumberIn(text.substr(slash + 1));
  return above < 0 || below <= 0 ? -1 : above / below;
}

}  // namespace

Result<SelectSpec> ParseSelectSpec(std::string_view text) {
  SelectSpec spec;
  const size_t colon = text.find(':');
  spec.name = text.substr(0, colon);
  if (spec.name.empty()) return SpecError(text, "the name is empty");
  if (colon == std::string_view::npos) return spec;
  std::string_view rest = text.substr(colon + 1);
  while (true) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0 ||
        equals + 1 == part.size()) {
      return SpecError(text, fmt::format("\"{}\" is no key=value", part));
    }
    const std::string key(part.substr(0, equals));
    const bool again = std::ranges::any_of(
        spec.parameters, [&](const auto& known) { return known.first == key; });
    if (again) return SpecError(text, fmt::format("{} occurs twice", key));
    spec.parameters.emplace_back(key, part.substr(equals + 1));
    if (comma == std::string_view::npos) return spec;
    rest = rest.substr(comma + 1);
  }
}

Result<Amount> ParseAmount(std::string_view field, std::string_view text) {
  const double share = ShareIn(text);
  if (share > 0 && share <= 1) return Amount{Amount::Unit::kShare, share};
  if (share < 0) {
    const Result<int64_t> tokens = winnow::ParseTokens(text);
    if (tokens.ok()) {
      return Amount{Amount::Unit::kTokens, static_cast<double>(*tokens)};
    }
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} must be tokens (\"2048\", \"4K\") or a share of the "
                   "context in (0, 1] (\"1/16\", \"1.56%\"), is \"{}\"",
                   field, text);
}

Result<int> ParseTokens(std::string_view field, std::string_view text) {
  constexpr int64_t kMaxTokens = int64_t{1} << 30;
  const Result<int64_t> tokens = winnow::ParseTokens(text);
  if (tokens.ok() && *tokens <= kMaxTokens) return static_cast<int>(*tokens);
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} must be tokens (\"64\", \"2K\") up to {}, is \"{}\"",
                   field, kMaxTokens, text);
}

Result<double> ParseFraction(std::string_view field, std::string_view text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() &&
      std::isfinite(number)) {
    return number;
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} must be a number, is \"{}\"", field, text);
}

Result<std::vector<bool>> ParseLayers(std::string_view field,
                                      std::string_view text, int num_layers) {
  std::vector<bool> layers(static_cast<size_t>(num_layers), false);
  if (text == "none") return layers;
  const Error error = MakeError(
      ErrorCode::kInvalidArgument,
      "{} must be layers below {} (\"0-1\", \"0+5+31\") or none, is \"{}\"",
      field, num_layers, text);
  for (std::string_view rest = text; !rest.empty();) {
    const size_t plus = rest.find('+');
    const std::string_view part = rest.substr(0, plus);
    const size_t dash = part.find('-');
    const double first = NumberIn(part.substr(0, dash));
    const double last = dash == std::string_view::npos
                            ? first
                            : NumberIn(part.substr(dash + 1));
    // In this order: no int holds what is out of range.
    if (!(first >= 0 && first <= last && last < num_layers) ||
        first != static_cast<int>(first) || last != static_cast<int>(last)) {
      return error;
    }
    for (int i = static_cast<int>(first); i <= static_cast<int>(last); ++i) {
      layers[static_cast<size_t>(i)] = true;
    }
    if (plus == std::string_view::npos) return layers;
    rest = rest.substr(plus + 1);
  }
  return error;
}

std::string_view NearestName(std::string_view written,
                             const std::vector<std::string_view>& names) {
  std::string_view nearest;
  size_t least = std::string_view::npos;
  for (const std::string_view name : names) {
    // Levenshtein's distance, a row of the table at a time.
    std::vector<size_t> row(name.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 0; i < written.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i + 1;
      for (size_t j = 0; j < name.size(); ++j) {
        const size_t replaced =
            diagonal + (ToLower(written[i]) != ToLower(name[j]) ? 1 : 0);
        diagonal = row[j + 1];
        row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
      }
    }
    if (row.back() < least) {
      least = row.back();
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace winnow
