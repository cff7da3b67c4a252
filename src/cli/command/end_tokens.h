// Which tokens end an answer, by all files of a checkpoint.
#ifndef WINNOW_CLI_COMMAND_END_TOKENS_H_
#define WINNOW_CLI_COMMAND_END_TOKENS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/config/config.h"
#include "text/tokenize/tokenizer.h"

namespace winnow {

// Those of generation_config.json and config.json, and the tokenizer's
// eos_token: fine-tunes change one and forget the others. Distinct, ascending,
// and with a row in the model.
std::vector<int32_t> EndTokenIds(const ModelConfig& config,
                                 const Tokenizer& tokenizer);

// What the files name beside these, and what of their special tokens was left
// out: a line each, which names file, field and value.
std::vector<std::string> TokenNotes(const ModelConfig& config,
                                    const Tokenizer& tokenizer);

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_END_TOKENS_H_
