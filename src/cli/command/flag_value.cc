#include "cli/command/flag_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/size_text.h"

namespace winnow {
namespace {

// The whole of `text` as a number.
template <typename T>
std::optional<T> ParseNumber(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

template <typename Limit, typename T>
TakeValue WholeNumberIn(Limit least, Limit most, T* value) {
  return [=](const std::string& text) -> std::string {
    const std::optional<Limit> number = ParseNumber<Limit>(text);
    if (!number || *number < least || *number > most) {
      return fmt::format("must be a whole number in [{}, {}], is \"{}\"", least,
                         most, text);
    }
    *value = *number;
    return {};
  };
}

template <typename T>
TakeValue PositiveNumberTo(T* value) {
  return [value](const std::string& text) -> std::string {
    const std::optional<double> number = ParseNumber<double>(text);
    if (!number || !std::isfinite(*number) || *number <= 0) {
      return fmt::format("must be a number above 0, is \"{}\"", text);
    }
    *value = *number;
    return {};
  };
}

}  // namespace

TakeValue Text(std::string* value) {
  return [value](const std::string& text) {
    *value = text;
    return std::string();
  };
}

TakeValue Word(std::string* value) {
  return [value](const std::string& text) -> std::string {
    if (text.empty()) return "must not be empty";
    *value = text;
    return {};
  };
}

TakeValue EachWord(std::vector<std::string>* values) {
  return [values](const std::string& text) -> std::string {
    if (text.empty()) return "must not be empty";
    values->push_back(text);
    return {};
  };
}

TakeValue EachText(std::vector<std::string>* values) {
  return [values](const std::string& text) {
    values->push_back(text);
    return std::string();
  };
}

TakeValue OneOf(std::vector<std::string> words, std::string* value) {
  return [words = std::move(words), value](const std::string& text) {
    const bool known = std::ranges::find(words, text) != words.end();
    if (known) *value = text;
    return known ? std::string()
                 : fmt::format("must be one of {}, is \"{}\"",
                               fmt::join(words, ", "), text);
  };
}

TakeValue Switch(bool* value) {
  return [value](const std::string&) {
    *value = true;
    return std::string();
  };
}

TakeValue WholeNumber(int least, int most, int* value) {
  return WholeNumberIn(least, most, value);
}

TakeValue WholeNumber(int least, int most, std::optional<int>* value) {
  return WholeNumberIn(least, most, value);
}

TakeValue WholeNumber(uint64_t least, uint64_t most, uint64_t* value) {
  return WholeNumberIn(least, most, value);
}

TakeValue Tokens(int least, int most, int* value) {
  return [=](const std::string& text) -> std::string {
    const Result<int64_t> tokens = ParseTokens(text);
    if (!tokens.ok() || *tokens < least || *tokens > most) {
      return fmt::format(
          "must be a number of tokens in [{}, {}] (\"4K\"), is \"{}\"", least,
          most, text);
    }
    *value = static_cast<int>(*tokens);
    return {};
  };
}

TakeValue Number(SamplingRange range, std::optional<float>* value) {
  return [=](const std::string& text) -> std::string {
    const std::optional<float> number = ParseNumber<float>(text);
    // Not a number is in no range.
    if (!number || !(*number >= range.least && *number <= range.most)) {
      return fmt::format("must be a number in [{}, {}], is \"{}\"", range.least,
                         range.most, text);
    }
    *value = *number;
    return {};
  };
}

TakeValue Share(std::optional<double>* value) {
  return [value](const std::string& text) -> std::string {
    const std::optional<double> number = ParseNumber<double>(text);
    if (!number || !(*number > 0 && *number <= 1)) {
      return fmt::format("must be a number above 0 and at most 1, is \"{}\"",
                         text);
    }
    *value = *number;
    return {};
  };
}

TakeValue NumberUpTo(double most, double* value) {
  return [=](const std::string& text) -> std::string {
    const std::optional<double> number = ParseNumber<double>(text);
    if (!number || !(*number >= 0 && *number <= most)) {
      return fmt::format("must be a number in [0, {}], is \"{}\"", most, text);
    }
    *value = *number;
    return {};
  };
}

TakeValue NumberIn(double least, double most, std::optional<double>* value) {
  return [=](const std::string& text) -> std::string {
    const std::optional<double> number = ParseNumber<double>(text);
    if (!number || !(*number >= least && *number <= most)) {
      return fmt::format("must be a number in [{}, {}], is \"{}\"", least, most,
                         text);
    }
    *value = *number;
    return {};
  };
}

TakeValue PositiveNumber(double* value) { return PositiveNumberTo(value); }

TakeValue PositiveNumber(std::optional<double>* value) {
  return PositiveNumberTo(value);
}

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> pieces;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    pieces.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return pieces;
}

Result<int64_t> SizeOf(std::string_view flag, const std::string& text) {
  const Result<int64_t> size = ParseBytes(text);
  if (size.ok()) return *size;
  return MakeError(ErrorCode::kInvalidArgument, "{}: {}", flag,
                   size.error().message);
}

}  // namespace winnow
