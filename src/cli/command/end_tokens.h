// EndTokenIds: the tokens that end an answer, by all files of a checkpoint.
#ifndef WINNOW_CLI_COMMAND_END_TOKENS_H_
#define WINNOW_CLI_COMMAND_END_TOKENS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/config/config.h"
#include "text/tokenize/tokenizer.h"

namespace winnow {

// The end tokens: the union of generation_config.json's, config.json's and the
// tokenizer's eos_token, as fine-tunes change one file and forget the others.
// Distinct, ascending, each with a row in the model.
std::vector<int32_t> EndTokenIds(const ModelConfig& config,
                                 const Tokenizer& tokenizer);

// A line for each end token or special token that the files name and the model
// lacks. The line names file, field and value.
std::vector<std::string> TokenNotes(const ModelConfig& config,
                                    const Tokenizer& tokenizer);

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_END_TOKENS_H_
