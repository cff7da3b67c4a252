#include "cli/command/engine_flags.h"

#include <algorithm>
#include <charconv>

#include "base/size_text.h"
#include "cli/command/command.h"
#include "cli/command/device.h"
#include "cli/command/flag_value.h"
#include "sparse/spec/selector.h"

namespace winnow {
namespace {

constexpr int kMaxThreads = 1024;

// 0 where the flag is not given.
Result<int64_t> SizeOrNone(std::string_view flag, const std::string& text) {
  if (text.empty()) return 0;
  return SizeOf(flag, text);
}

// Nothing where the flag is not given.
Result<std::optional<CacheBudget>> CacheBudgetOf(const EngineFlags& flags) {
  const std::string& text = flags.cache_budget;
  if (text.empty()) return std::optional<CacheBudget>();
  CacheBudget budget;
  const char* const end = text.data() + text.size();
  if (text.back() == 'x') {
    const auto [stop, error] =
        std::from_chars(text.data(), end - 1, budget.times);
    if (error != std::errc() || stop != end - 1) budget.times = 0;
  } else if (const Result<int64_t> tokens = ParseTokens(text); tokens.ok()) {
    budget.tokens = *tokens;
  }
  if (budget.tokens <= 0 && !(budget.times > 0 && budget.times <= 1e6)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--cache-budget must be a number of tokens from 1 "
                     "(\"8K\") or a multiple up to 1000000x (\"4x\"), is "
                     "\"{}\"",
                     text);
  }
  if (flags.host_kv.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--cache-budget needs --host-kv, where the rest lies; it "
                     "is not given");
  }
  return std::optional<CacheBudget>(budget);
}

// REQUIRES: a word of --restore.
std::optional<RestoreRates> RestoreRatesOf(const std::string& word) {
  if (word == "auto") return std::nullopt;
  return RestoreRates{.never_copies = word == "compute"};
}

}  // namespace

void AddModelFlags(Command& command, EngineFlags* flags, bool model_required) {
  command.AddFlag({.name = "MODEL",
                   .value_name = "FOLDER",
                   .help = "Folder of a Hugging Face checkpoint: config.json, "
                           "safetensors, tokenizer.json",
                   .required = model_required},
                  Text(&flags->model));
  command.AddFlag({.name = "--dtype",
                   .value_name = "auto|bfloat16|float16|float32",
                   .help = "Numbers of weights and KV (default auto: as "
                           "stored)"},
                  Text(&flags->dtype));
  command.AddFlag(
      {.name = "--device",
       .value_name = "auto|cpu|cuda[:N]",
       .help = "Where it runs (default auto: a GPU that this build and its "
               "driver can use, else the CPU)"},
      Text(&flags->device));
  command.AddFlag({.name = "--threads",
                   .value_name = "N",
                   .help = "CPU threads (0: every core)"},
                  WholeNumber(0, kMaxThreads, &flags->threads));
  command.AddFlag({.name = "--gpu-memory-utilization",
                   .value_name = "F",
                   .help = "Share of a GPU's memory that weights, workspace "
                           "and KV may take (0.9; default: nearly all that is "
                           "free)"},
                  Share(&flags->gpu_memory_utilization));
}

void AddStepFlags(Command& command, EngineFlags* flags) {
  command.AddFlag({.name = "--max-model-len",
                   .value_name = "N",
                   .help = "Tokens a sequence may reach, prompt and generated "
                           "but for the last (32K; default: the "
                           "checkpoint's)"},
                  Word(&flags->max_model_len));
  command.AddFlag(
      {.name = "--max-num-batched-tokens",
       .value_name = "N",
       .help = "Tokens a step; bounds a prompt's chunk (8K; default 2048)"},
      Tokens(1, kMaxNumBatchedTokens, &flags->max_num_batched_tokens));
  command.AddFlag({.name = "--batch-invariant",
                   .help = "Answers whose bits depend neither on the batch nor "
                           "on the chunks",
                   .values = Flag::Values::kNone},
                  Switch(&flags->batch_invariant));
  command.AddFlag({.name = "--seed",
                   .value_name = "N",
                   .help = "Seed of every random draw (default 0)"},
                  WholeNumber(0, UINT64_MAX, &flags->seed));
}

void AddEngineFlags(Command& command, EngineFlags* flags) {
  AddModelFlags(command, flags);
  AddStepFlags(command, flags);
  command.AddFlag({.name = "--max-num-seqs",
                   .value_name = "N",
                   .help = "Sequences that run at once, no more than "
                           "--max-num-batched-tokens (default 16)"},
                  WholeNumber(1, kMaxNumSeqs, &flags->max_num_seqs));
  command.AddFlag({.name = "--device-kv",
                   .value_name = "SIZE",
                   .help = "Memory for the KV pool (64MiB, 2GiB; default: what "
                           "the prompts need)"},
                  Word(&flags->device_kv));
  command.AddFlag({.name = "--host-kv",
                   .value_name = "SIZE",
                   .help = "Host memory for KV that --device-kv has no room "
                           "for (2GiB; default: none)"},
                  Word(&flags->host_kv));
  command.AddFlag({.name = "--cache-budget",
                   .value_name = "TOKENS|Fx",
                   .help = "Device memory for the KV of a request that "
                           "--select reads a part of, once its prompt is read: "
                           "tokens (8K) or a multiple of its budget (4x); the "
                           "rest stays in --host-kv"},
                  Word(&flags->cache_budget));
  command.AddFlag({.name = "--restore",
                   .value_name = "auto|copy|compute",
                   .help = "How a prompt gets the KV of its beginning that "
                           "lies on the host or a disk (default auto: what is "
                           "foretold to take less time)"},
                  OneOf({"auto", "copy", "compute"}, &flags->restore));
  command.AddFlag({.name = "--quiet",
                   .help = "No progress and no closing line on standard error",
                   .values = Flag::Values::kNone},
                  Switch(&flags->quiet));
}

void AddJsonFlag(Command& command, const std::string& help,
                 EngineFlags* flags) {
  command.AddFlag({.name = "--json",
                   .value_name = "[FILE]",
                   .help = help,
                   .values = Flag::Values::kOneOrNone},
                  [flags](const std::string& file) {
                    flags->json = true;
                    flags->json_file = file;
                    return std::string();
                  });
}

Result<std::optional<Dtype>> ParseDtype(const std::string& text) {
  if (text == "auto") return std::optional<Dtype>();
  for (const Dtype dtype :
       {Dtype::kBFloat16, Dtype::kFloat16, Dtype::kFloat32}) {
    if (text == DtypeName(dtype)) return std::optional<Dtype>(dtype);
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "--dtype must be auto, bfloat16, float16 or float32, is {}",
                   text);
}

Result<EngineOptions> ParseEngineOptions(const EngineFlags& flags) {
  EngineOptions options;
  options.max_num_seqs = flags.max_num_seqs;
  options.max_num_batched_tokens = flags.max_num_batched_tokens;
  options.batch_invariant = flags.batch_invariant;
  if (!flags.max_model_len.empty()) {
    const Result<int64_t> length = ParseTokens(flags.max_model_len);
    if (!length.ok() || *length < 1 || *length > INT32_MAX) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--max-model-len must be a number of tokens from 1 "
                       "(\"32K\"), is \"{}\"",
                       flags.max_model_len);
    }
    options.max_model_len = static_cast<int>(*length);
  }
  ASSIGN_OR_RETURN(options.device_kv_bytes,
                   SizeOrNone("--device-kv", flags.device_kv));
  if (!flags.device_kv.empty() && options.device_kv_bytes == 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--device-kv must hold at least one page of KV, is \"{}\"",
                     flags.device_kv);
  }
  ASSIGN_OR_RETURN(options.host_kv_bytes,
                   SizeOrNone("--host-kv", flags.host_kv));
  ASSIGN_OR_RETURN(options.cache_budget, CacheBudgetOf(flags));
  options.restore_rates = RestoreRatesOf(flags.restore);
  options.measures_link = true;
  return options;
}

Status CheckEngineFlags(const EngineFlags& flags,
                        const std::vector<std::string>& selects) {
  RETURN_IF_ERROR(ParseDtype(flags.dtype));
  RETURN_IF_ERROR(CheckDeviceName(flags.device));
  if (flags.gpu_memory_utilization && flags.device == "cpu") {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--gpu-memory-utilization is of a GPU's memory, --device "
                     "is cpu");
  }
  RETURN_IF_ERROR(ParseEngineOptions(flags));
  for (const std::string& select : selects) {
    if (select != "auto") RETURN_IF_ERROR(CheckSelectorSpelling(select));
  }
  return Ok{};
}

Result<std::vector<std::string>> SplitSelects(const std::string& list) {
  std::vector<std::string> selects;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string piece = list.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = piece.find('=');
    const bool is_setting = equals < piece.find(':');
    if (is_setting && !selects.empty()) {
      selects.back() += "," + piece;
    } else {
      selects.push_back(piece);
    }
  }
  for (size_t i = 0; i < selects.size(); ++i) {
    if (selects[i].empty()) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--select must name a selection before and after each "
                       "comma, is \"{}\"",
                       list);
    }
    const auto same = std::count(selects.begin(), selects.end(), selects[i]);
    if (same > 1) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--select must name each selection once, has \"{}\" {} "
                       "times in \"{}\"",
                       selects[i], same, list);
    }
  }
  return selects;
}

Result<std::string> ResolveSelect(const std::string& spec,
                                  const NativeSelector& native_selector) {
  if (spec != "auto") return spec;
  if (!native_selector) return std::string("dense");
  if (native_selector->ok()) return *native_selector;
  return MakeError(ErrorCode::kUnsupported,
                   "{}; --select dense reads everything",
                   native_selector->error().message);
}

Result<std::vector<std::string>> SelectorsOf(
    const std::vector<std::string>& specs,
    const NativeSelector& native_selector) {
  std::vector<std::string> selectors;
  for (const std::string& spec : specs) {
    ASSIGN_OR_RETURN(std::string selector,
                     ResolveSelect(spec, native_selector));
    selectors.push_back(std::move(selector));
  }
  const bool all_dense = std::ranges::all_of(
      selectors,
      [](const std::string& selector) { return selector == "dense"; });
  if (all_dense) selectors.clear();
  return selectors;
}

}  // namespace winnow
