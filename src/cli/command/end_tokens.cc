#include "cli/command/end_tokens.h"

#include <algorithm>

#include "model/config/json_fields.h"

namespace winnow {

std::vector<int32_t> EndTokenIds(const ModelConfig& config,
                                 const Tokenizer& tokenizer) {
  std::vector<int32_t> ids = config.generation.eos_token_ids;
  const std::optional<int32_t> named = tokenizer.eos_id();
  if (!named || *named >= config.vocab_size) return ids;
  const auto place = std::ranges::lower_bound(ids, *named);
  if (place == ids.end() || *place != *named) ids.insert(place, *named);
  return ids;
}

std::vector<std::string> TokenNotes(const ModelConfig& config,
                                    const Tokenizer& tokenizer) {
  std::vector<std::string> notes;
  for (const std::string& wrong : config.generation.wrong_eos) {
    notes.push_back(wrong + ": it is left out");
  }
  for (std::string& note : tokenizer.Notes()) notes.push_back(std::move(note));
  const std::optional<int32_t> named = tokenizer.eos_id();
  if (named && *named >= config.vocab_size) {
    notes.push_back(fmt::format(
        "eos_token \"{}\" of the tokenizer: must have an id below {} (the "
        "model's vocab_size), has {}: no answer ends with it",
        Printable(tokenizer.TokenText(*named).value_or("")), config.vocab_size,
        *named));
  }
  return notes;
}

}  // namespace winnow
