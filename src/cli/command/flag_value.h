// What a flag's value may be, checked on what was typed, so that messages
// show it as it was.
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
inline constexpr int kMaxSeconds = 24 * 3600;  // of a limit in seconds: a day

// Each writes what it takes to `*value`, which must outlive the command.

TakeValue Text(std::string* value);
TakeValue EachText(std::vector<std::string>* values);
// The same, and not empty.
TakeValue Word(std::string* value);
TakeValue EachWord(std::vector<std::string>* values);
// One of these words.
TakeValue OneOf(std::vector<std::string> words, std::string* value);
// For a flag without a value.
TakeValue Switch(bool* value);
// Decimal digits alone, from `least` to `most`.
TakeValue WholeNumber(int least, int most, int* value);
TakeValue WholeNumber(int least, int most, std::optional<int>* value);
TakeValue WholeNumber(uint64_t least, uint64_t most, uint64_t* value);
// An amount of tokens, as ParseTokens has it.
TakeValue Tokens(int least, int most, int* value);
// A decimal number, as close as a float comes.
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

// The pieces of a list with commas, as typed; one that is empty is a piece.
std::vector<std::string> SplitList(const std::string& text);

// The bytes of a size such as 64MiB; an error's message begins with the flag.
Result<int64_t> SizeOf(std::string_view flag, const std::string& text);

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_FLAG_VALUE_H_
