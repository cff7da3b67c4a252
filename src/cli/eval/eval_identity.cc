#include "cli/eval/eval_identity.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/command/fingerprint.h"
#include "model/forward/model_identity.h"
#include "model/weights/gates.h"

namespace winnow {
namespace {

constexpr size_t kMaxTokenizerFileBytes = size_t{256} << 20;
// Whose fields are told one by one.
constexpr std::string_view kFilesBeside[] = {
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"};

std::string NumberOf(std::string_view text) {
  Fingerprint digest;
  digest.Add(text);
  return fmt::format("{:016x}", digest.value());
}

// None where it is not there.
Result<std::optional<std::string>> ReadIfIsThere(
    const std::filesystem::path& path) {
  Result<std::string> text = ReadFile(path, kMaxTokenizerFileBytes);
  if (text.ok()) return std::optional(*std::move(text));
  if (text.error().code == ErrorCode::kNotFound) {
    return std::optional<std::string>();
  }
  return text.error();
}

// What is no object is told as a whole.
void AddFieldsOf(std::string_view file, const std::string& text,
                 EvalIdentity& identity) {
  constexpr size_t kMostShown = 60;
  const auto parsed =
      nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) {
    identity.emplace_back(file, NumberOf(text));
    return;
  }
  for (const auto& [name, value] : parsed.items()) {
    if (name == "chat_template") continue;
    std::string shown =
        value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    if (shown.size() > kMostShown) shown = NumberOf(shown);
    identity.emplace_back(fmt::format("{}: {}", file, name), std::move(shown));
  }
}

// Of what --select seerattention reads.
Status AddGates(const std::filesystem::path& folder, EvalIdentity& identity) {
  const std::filesystem::path path = folder / kGatesFile;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return Ok{};
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  ThreadPool pool(1);
  identity.emplace_back(fmt::format("{}: hash of all bytes", kGatesFile),
                        HexOf(HashContent(file.bytes(), pool, {})));
  return Ok{};
}

void AddFlags(const EvalFlags& flags, EvalIdentity& identity) {
  const EngineFlags& engine = flags.engine;
  const auto number = [](const std::optional<int>& value) {
    return value ? fmt::format("{}", *value) : std::string("none");
  };
  const EvalIdentity all = {
      {"model", engine.model},
      {"dtype", engine.dtype},
      {"device", engine.device},
      {"max_model_len", engine.max_model_len},
      {"max_num_seqs", fmt::format("{}", engine.max_num_seqs)},
      {"max_num_batched_tokens",
       fmt::format("{}", engine.max_num_batched_tokens)},
      {"select", engine.select},
      {"batch_invariant", engine.batch_invariant ? "true" : "false"},
      {"seed", fmt::format("{}", engine.seed)},
      {"match", flags.match},
      {"max_tokens", number(flags.tasks.max_tokens)},
      {"limit", number(flags.tasks.limit)},
      {"skip_bad", flags.tasks.skip_bad ? "true" : "false"}};
  identity.insert(identity.end(), all.begin(), all.end());
}

}  // namespace

Result<EvalIdentity> TokenizerIdentity(const std::filesystem::path& folder) {
  EvalIdentity identity;
  ASSIGN_OR_RETURN(const auto tokenizer,
                   ReadIfIsThere(folder / "tokenizer.json"));
  identity.emplace_back("tokenizer.json",
                        tokenizer ? NumberOf(*tokenizer) : "not there");
  for (const std::string_view file : kFilesBeside) {
    ASSIGN_OR_RETURN(const auto text, ReadIfIsThere(folder / file));
    if (text) AddFieldsOf(file, *text, identity);
  }
  return identity;
}

Result<EvalIdentity> EvalIdentityOf(const EvalFlags& flags, const Model& model,
                                    const EvalPlan& plan,
                                    std::span<const int32_t> end_token_ids) {
  EvalIdentity identity;
  AddFlags(flags, identity);
  ASSIGN_OR_RETURN(const EvalIdentity tokenizer,
                   TokenizerIdentity(model.folder()));
  for (const EvalIdentity& part :
       {KvIdentity(model), LogitsIdentity(model), tokenizer}) {
    identity.insert(identity.end(), part.begin(), part.end());
  }
  RETURN_IF_ERROR(AddGates(model.folder(), identity));
  identity.emplace_back("generation_config.json: eos_token_id",
                        fmt::format("{}", end_token_ids));
  identity.emplace_back("files", fmt::format("{}", plan.files.size()));
  for (size_t i = 0; i < plan.files.size(); ++i) {
    const EvalFile& file = plan.files[i];
    identity.emplace_back(fmt::format("file_{}", i), file.path);
    identity.emplace_back(fmt::format("file_{}_digest", i),
                          fmt::format("{:016x}", file.digest));
  }
  return identity;
}

}  // namespace winnow
