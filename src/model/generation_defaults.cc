#include "model/generation_defaults.h"

#include <algorithm>

#include "base/file.h"

namespace winnow {
namespace {

constexpr size_t kMaxDefaultsBytes = size_t{1} << 20;

Status ReadOptional(const JsonFields& fields, std::string_view name,
                    NumberRange range, std::optional<double>& value) {
  if (!fields.Has(name)) return Ok{};
  ASSIGN_OR_RETURN(value, fields.Number(name, range));
  return Ok{};
}

Status ReadEos(const JsonFields& fields, int64_t vocab_size,
               std::vector<int32_t>& ids) {
  if (!fields.Has("eos_token_id")) return Ok{};
  ASSIGN_OR_RETURN(const std::vector<int64_t> read,
                   fields.Integers("eos_token_id", {0, vocab_size - 1}));
  ids.assign(read.begin(), read.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return Ok{};
}

}  // namespace

Result<GenerationDefaults> ReadGenerationDefaults(
    const std::filesystem::path& folder, const JsonFields& config,
    int64_t vocab_size) {
  GenerationDefaults defaults;
  RETURN_IF_ERROR(ReadEos(config, vocab_size, defaults.eos_token_ids));
  const std::filesystem::path path = folder / "generation_config.json";
  const Result<std::string> text = ReadFile(path, kMaxDefaultsBytes);
  if (!text.ok()) {
    if (text.error().code == ErrorCode::kNotFound) return defaults;
    return text.error();
  }
  ASSIGN_OR_RETURN(const JsonFields fields,
                   JsonFields::Parse(*text, path.string(), {}));
  RETURN_IF_ERROR(ReadEos(fields, vocab_size, defaults.eos_token_ids));
  ASSIGN_OR_RETURN(defaults.do_sample, fields.Flag("do_sample", false));
  RETURN_IF_ERROR(
      ReadOptional(fields, "temperature", {0, 100}, defaults.temperature));
  RETURN_IF_ERROR(ReadOptional(fields, "top_p", {0, 1}, defaults.top_p));
  RETURN_IF_ERROR(ReadOptional(fields, "min_p", {0, 1}, defaults.min_p));
  RETURN_IF_ERROR(ReadOptional(fields, "repetition_penalty", {0.01, 100},
                               defaults.repetition_penalty));
  if (fields.Has("top_k")) {
    // -1 is how some say 0: all tokens.
    ASSIGN_OR_RETURN(const int64_t top_k,
                     fields.Integer("top_k", {-1, INT32_MAX}));
    defaults.top_k = std::max<int64_t>(top_k, 0);
  }
  return defaults;
}

}  // namespace winnow
