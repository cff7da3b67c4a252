// GenerationDefaults: a checkpoint's end tokens and sampling parameters.
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

// Defaults for parameters that a request does not set, in the ranges of
// engine/request/sampling_params.h. Empty: the checkpoint does not set the
// value.
struct GenerationDefaults {
  // From all files that name some; distinct, ascending.
  std::vector<int32_t> eos_token_ids;
  // Entries of these files that are not ids of the model, a line each.
  std::vector<std::string> wrong_eos;
  bool do_sample = false;  // false: the most likely token, as in transformers
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<int64_t> top_k;  // 0: all
  std::optional<double> repetition_penalty;
};

// Reads `folder`/generation_config.json if it exists. Adds the end tokens of
// `config`, which is config.json, and of its text_config.
Result<GenerationDefaults> ReadGenerationDefaults(
    const std::filesystem::path& folder, const JsonFields& config,
    int64_t vocab_size);

}  // namespace winnow

#endif  // WINNOW_MODEL_CONFIG_GENERATION_DEFAULTS_H_
