#include "cli/bench.h"

#include "cli/bench_step.h"
#include "cli/bench_verbs.h"
#include "cli/command.h"
#include "cli/flag_value.h"
#include "cli/output.h"

namespace winnow {
namespace {

constexpr int kMaxTokens = 1 << 20;
constexpr int kMaxBatch = 4096;
constexpr int kMaxRounds = 1000;

void AddCount(Command& command, const std::string& name,
              const std::string& help, int most, int* count) {
  command.AddFlag({.name = name, .value_name = "N", .help = help},
                  WholeNumber(1, most, count));
}

void AddRoundsAndJson(Command& command, BenchFlags* flags) {
  AddCount(command, "--rounds",
           "How often to measure; medians are printed (default 3)", kMaxRounds,
           &flags->rounds);
  AddJsonFlag(command, "The figures as JSON, to standard output or to FILE",
              &flags->engine);
}

void AddStep(Command& bench, BenchFlags* flags) {
  Command& step = bench.AddCommand(
      "step",
      "Whole steps of a checkpoint: prompt and decode rates, against "
      "the products alone and a plain parallel read");
  AddModelFlags(step, &flags->engine);
  AddStepFlags(step, &flags->engine);
  AddCount(step, "--prompt", "Prompt tokens a request (default 512)",
           kMaxTokens, &flags->prompt_tokens);
  AddCount(step, "--generate", "Tokens generated a request (default 32)",
           kMaxTokens, &flags->generated_tokens);
  AddCount(step, "--batch", "Requests at once (default 1)", kMaxBatch,
           &flags->batch);
  AddRoundsAndJson(step, flags);
}

Command& AddVerbs(Command& bench, BenchFlags* flags) {
  Command& verbs = bench.AddCommand(
      "verbs", "Each verb at a checkpoint's shapes, against its roof");
  AddModelFlags(verbs, &flags->engine);
  AddCount(verbs, "--decode-context",
           "Tokens that a decode Read attends (default 32768)", kMaxTokens,
           &flags->decode_context_tokens);
  AddCount(verbs, "--prompt-context",
           "Tokens of the prompt that Read attends (default 16384)", kMaxTokens,
           &flags->prompt_context_tokens);
  AddRoundsAndJson(verbs, flags);
  return verbs;
}

}  // namespace

Command& AddBenchCommand(Command& program, BenchFlags* flags) {
  Command& bench =
      program.AddCommand("bench", "Measure this machine: step, verbs");
  AddStep(bench, flags);
  flags->verbs_command = &AddVerbs(bench, flags);
  return bench;
}

Result<int> RunBench(const BenchFlags& flags) {
  RETURN_IF_ERROR(CheckJsonFile(flags.engine));
  return flags.verbs_command->chosen() ? RunBenchVerbs(flags)
                                       : RunBenchStep(flags);
}

}  // namespace winnow
