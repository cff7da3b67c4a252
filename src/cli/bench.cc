#include "cli/bench.h"

#include <CLI/CLI.hpp>

#include "cli/bench_step.h"
#include "cli/bench_verbs.h"

namespace winnow {
namespace {

struct CountFlag {
  std::string_view name;
  int value;
  int limit;
};

Status CheckCounts(const BenchFlags& flags) {
  constexpr int kMaxTokens = 1 << 20;
  const CountFlag counts[] = {
      {"prompt", flags.prompt_tokens, kMaxTokens},
      {"generate", flags.generated_tokens, kMaxTokens},
      {"batch", flags.batch, 4096},
      {"rounds", flags.rounds, 1000},
      {"decode-context", flags.decode_context_tokens, kMaxTokens},
      {"prompt-context", flags.prompt_context_tokens, kMaxTokens}};
  for (const CountFlag& count : counts) {
    if (count.value >= 1 && count.value <= count.limit) continue;
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} must be in [1, {}], is {}", count.name, count.limit,
                     count.value);
  }
  return Ok{};
}

void AddRounds(CLI::App& command, BenchFlags* flags) {
  command
      .add_option("--rounds", flags->rounds,
                  "How often to measure; medians are printed (default 3)")
      ->type_name("N");
}

CLI::App* AddStep(CLI::App& bench, BenchFlags* flags) {
  CLI::App* step = bench.add_subcommand(
      "step",
      "Whole steps of a checkpoint: prompt and decode rates, against "
      "the products alone and a plain parallel read");
  AddEngineFlags(*step, &flags->engine);
  step->add_option("--prompt", flags->prompt_tokens,
                   "Prompt tokens a request (default 512)")
      ->type_name("N");
  step->add_option("--generate", flags->generated_tokens,
                   "Tokens generated a request (default 32)")
      ->type_name("N");
  step->add_option("--batch", flags->batch, "Requests at once (default 1)")
      ->type_name("N");
  AddRounds(*step, flags);
  return step;
}

CLI::App* AddVerbs(CLI::App& bench, BenchFlags* flags) {
  CLI::App* verbs = bench.add_subcommand(
      "verbs", "Each verb at a checkpoint's shapes, against its roof");
  AddEngineFlags(*verbs, &flags->engine);
  verbs
      ->add_option("--decode-context", flags->decode_context_tokens,
                   "Tokens that a decode Read attends (default 32768)")
      ->type_name("N");
  verbs
      ->add_option("--prompt-context", flags->prompt_context_tokens,
                   "Tokens of the prompt that Read attends (default 16384)")
      ->type_name("N");
  AddRounds(*verbs, flags);
  return verbs;
}

}  // namespace

CLI::App* AddBenchCommand(CLI::App& app, BenchFlags* flags) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure this machine: step, verbs");
  bench->require_subcommand(1);
  AddStep(*bench, flags);
  AddVerbs(*bench, flags)->callback([flags] { flags->verbs = true; });
  return bench;
}

Result<int> RunBench(const BenchFlags& flags) {
  RETURN_IF_ERROR(CheckCounts(flags));
  return flags.verbs ? RunBenchVerbs(flags) : RunBenchStep(flags);
}

}  // namespace winnow
