// Checks of flags' values on the typed text, so that messages show it
// unchanged.
#ifndef WINNOW_CLI_COMMAND_FLAG_VALUE_H_
#define WINNOW_CLI_COMMAND_FLAG_VALUE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/command/command.h"
#include "engine/request/sampling_params.h"

namespace winnow {

inline constexpr int kMaxPort = 65535;
// The limit of limits in seconds: a day.
inline constexpr int kMaxSeconds = 24 * 3600;

// Each stores the value in `*value`, which must outlive the command.

TakeValue Text(std::string* value);
TakeValue EachText(std::vector<std::string>* values);
// As above, but not empty.
TakeValue Word(std::string* value);
TakeValue EachWord(std::vector<std::string>* values);
// One of `words`.
TakeValue OneOf(std::vector<std::string> words, std::string* value);
// For a flag without a value.
TakeValue Switch(bool* value);
// Decimal digits alone, in [least, most].
TakeValue WholeNumber(int least, int most, int* value);
TakeValue WholeNumber(int least, int most, std::optional<int>* value);
TakeValue WholeNumber(uint64_t least, uint64_t most, uint64_t* value);
// An amount of tokens, as in ParseTokens.
TakeValue Tokens(int least, int most, int* value);
// A decimal number, rounded to float.
TakeValue Number(SamplingRange range, std::optional<float>* value);
// A decimal number above 0 and at most 1.
TakeValue Share(std::optional<double>* value);
// A decimal number from 0 to `most`.
TakeValue NumberUpTo(double most, double* value);
// A decimal number in [least, most].
TakeValue NumberIn(double least, double most, std::optional<double>* value);
// A decimal number above 0.
TakeValue PositiveNumber(double* value);
TakeValue PositiveNumber(std::optional<double>* value);

// Splits a list at commas. Parts may be empty.
std::vector<std::string> SplitList(const std::string& text);

// The bytes of a size such as 64MiB. An error's message begins with `flag`.
Result<int64_t> SizeOf(std::string_view flag, const std::string& text);

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_FLAG_VALUE_H_
