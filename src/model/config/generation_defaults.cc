#include "model/config/generation_defaults.h"

#include <algorithm>
#include <utility>

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

void ReadEos(const JsonFields& fields, int64_t vocab_size,
             GenerationDefaults& defaults) {
  std::vector<Error> wrong;
  for (const int64_t id :
       fields.GoodIntegers("eos_token_id", {0, vocab_size - 1}, wrong)) {
    defaults.eos_token_ids.push_back(static_cast<int32_t>(id));
  }
  for (Error& error : wrong) {
    defaults.wrong_eos.push_back(std::move(error.message));
  }
  std::vector<int32_t>& ids = defaults.eos_token_ids;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

}  // namespace

Result<GenerationDefaults> ReadGenerationDefaults(
    const std::filesystem::path& folder, const JsonFields& config,
    int64_t vocab_size) {
  GenerationDefaults defaults;
  ReadEos(config, vocab_size, defaults);
  if (const auto text = config.Object("text_config"); text.ok()) {
    ReadEos(*text, vocab_size, defaults);
  }
  const std::filesystem::path path = folder / "generation_config.json";
  const Result<std::string> text = ReadFile(path, kMaxDefaultsBytes);
  if (!text.ok()) {
    if (text.error().code == ErrorCode::kNotFound) return defaults;
    return text.error();
  }
  ASSIGN_OR_RETURN(const JsonFields fields,
                   JsonFields::Parse(*text, path.string(), {}));
  ReadEos(fields, vocab_size, defaults);
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
