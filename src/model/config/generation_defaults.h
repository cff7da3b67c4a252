// GenerationDefaults: what a checkpoint says about ending and sampling.
#ifndef WINNOW_MODEL_CONFIG_GENERATION_DEFAULTS_H_
#define WINNOW_MODEL_CONFIG_GENERATION_DEFAULTS_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/config/json_fields.h"

namespace winnow {

// Values that a request takes where it has none of its own, and may have
// (engine/request/sampling_params.h). A value that the checkpoint leaves open
// is empty.
struct GenerationDefaults {
  // Of all files that name some; distinct, ascending.
  std::vector<int32_t> eos_token_ids;
  // What they name beside these that is no id of the model: a line each.
  std::vector<std::string> wrong_eos;
  bool do_sample = false;  // false: the best token, as transformers
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<int64_t> top_k;  // 0: all
  std::optional<double> repetition_penalty;
};

// Reads `folder`/generation_config.json where there is one. Ends of text are
// also those of config.json, `config`, and of its text_config.
Result<GenerationDefaults> ReadGenerationDefaults(
    const std::filesystem::path& folder, const JsonFields& config,
    int64_t vocab_size);

}  // namespace winnow

#endif  // WINNOW_MODEL_CONFIG_GENERATION_DEFAULTS_H_
