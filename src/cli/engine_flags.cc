#include "cli/engine_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/size_text.h"
#include "cli/whole_number.h"

namespace winnow {

void AddModelFlags(CLI::App& command, EngineFlags* flags) {
  command
      .add_option("MODEL", flags->model,
                  "Folder of a Hugging Face checkpoint: config.json, "
                  "safetensors, tokenizer.json")
      ->required();
  command
      .add_option("--dtype", flags->dtype,
                  "auto (as stored), bfloat16, float16 or float32")
      ->type_name("DTYPE");
  command
      .add_option("--device", flags->device,
                  "auto or cpu; this build has no other")
      ->type_name("DEVICE");
  command
      .add_option("--threads", flags->threads, "CPU threads (0: every core)")
      ->type_name("N")
      ->check(WholeNumberIn(0, 1024));
}

void AddEngineFlags(CLI::App& command, EngineFlags* flags) {
  AddModelFlags(command, flags);
  command
      .add_option("--max-model-len", flags->max_model_len,
                  "Tokens a sequence may reach, prompt and generated (32K; "
                  "default: the checkpoint's)")
      ->type_name("N");
  command
      .add_option("--max-num-seqs", flags->max_num_seqs,
                  "Sequences that run at once (default 16)")
      ->type_name("N");
  command
      .add_option("--max-num-batched-tokens", flags->max_num_batched_tokens,
                  "Tokens a step; bounds a prompt's chunk (default 2048)")
      ->type_name("N");
  command
      .add_option("--device-kv", flags->device_kv,
                  "Memory for the KV pool (64MiB, 2GiB; default: what the "
                  "prompts need)")
      ->type_name("SIZE");
  command
      .add_option("--select", flags->select,
                  "What attention reads: auto (what the checkpoint asks for), "
                  "dense (everything), or a selector with its parameters "
                  "(quest:budget=2K); winnow select list explains them")
      ->type_name("SPEC");
  command.add_flag("--batch-invariant", flags->batch_invariant,
                   "Answers whose bits depend neither on the batch nor on "
                   "the chunks");
  command
      .add_option("--seed", flags->seed,
                  "Seed of every random draw (default 0)")
      ->type_name("N")
      ->check(WholeNumberIn(0, UINT64_MAX));
  command
      .add_option_function<std::string>(
          "--json",
          [flags](const std::string& file) {
            flags->json = true;
            flags->json_file = file;
          },
          "A JSON line a prompt, to standard output or to FILE")
      ->expected(0, 1)
      ->default_str("")
      ->type_name("[FILE]");
  command.add_flag("--quiet", flags->quiet,
                   "No progress and no closing line on standard error");
}

Result<std::optional<Dtype>> ParseDtype(const std::string& text) {
  if (text == "auto") return std::optional<Dtype>();
  for (const Dtype dtype :
       {Dtype::kBFloat16, Dtype::kFloat16, Dtype::kFloat32}) {
    if (text == DtypeName(dtype)) return std::optional<Dtype>(dtype);
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "dtype must be auto, bfloat16, float16 or float32, is {}",
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
                       "max-model-len must be a number of tokens from 1 "
                       "(\"32K\"), is \"{}\"",
                       flags.max_model_len);
    }
    options.max_model_len = static_cast<int>(*length);
  }
  if (!flags.device_kv.empty()) {
    const Result<int64_t> size = ParseBytes(flags.device_kv);
    if (!size.ok()) {
      return MakeError(ErrorCode::kInvalidArgument, "device-kv: {}",
                       size.error().message);
    }
    options.device_kv_bytes = *size;
  }
  return options;
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
    const auto same = std::count(selects.begin(), selects.end(), selects[i]);
    if (selects[i].empty() || same > 1) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "select must name each selection once, has \"{}\" {} "
                       "times in \"{}\"",
                       selects[i], same, list);
    }
  }
  return selects;
}

std::string ResolveSelect(const std::string& spec,
                          const std::optional<std::string>& native_selector) {
  return spec == "auto" ? native_selector.value_or("dense") : spec;
}

std::vector<std::string> SelectorsOf(
    const std::vector<std::string>& specs,
    const std::optional<std::string>& native_selector) {
  std::vector<std::string> selectors;
  for (const std::string& spec : specs) {
    selectors.push_back(ResolveSelect(spec, native_selector));
  }
  const bool all_dense = std::ranges::all_of(
      selectors,
      [](const std::string& selector) { return selector == "dense"; });
  if (all_dense) selectors.clear();
  return selectors;
}

}  // namespace winnow
