#include "cli/generate/generate.h"

#include "cli/command/command.h"
#include "cli/command/flag_value.h"

namespace winnow {
namespace {

// The three kinds of prompts, each repeatable, in the order of the command
// line.
void AddPromptFlags(Command& command, GenerateFlags* flags) {
  const auto add = [&](Flag flag, Prompt::Kind kind) {
    flag.values = Flag::Values::kOneEachTime;
    command.AddFlag(flag, [flags, kind](const std::string& text) {
      flags->prompts.push_back({kind, text});
      return std::string();
    });
  };
  add({.name = "--prompt",
       .value_name = "TEXT",
       .help = "A prompt; may be given several times"},
      Prompt::Kind::kText);
  add({.name = "--prompt-file",
       .value_name = "FILE",
       .help = "A file that holds a prompt"},
      Prompt::Kind::kFile);
  add({.name = "--chat",
       .value_name = "TEXT",
       .help = "A user's message, put into the checkpoint's chat template"},
      Prompt::Kind::kChat);
}

void AddSamplingFlags(Command& command, GenerateFlags* flags) {
  command.AddFlag({.name = "--temperature",
                   .value_name = "T",
                   .help = "0 takes the best token (default: the "
                           "checkpoint's, else 0)"},
                  Number(kTemperatures, &flags->temperature));
  command.AddFlag(
      {.name = "--top-p", .value_name = "P", .help = "Nucleus, in [0, 1]"},
      Number(kProbabilities, &flags->top_p));
  command.AddFlag({.name = "--top-k",
                   .value_name = "N",
                   .help = "Best tokens kept (0: all)"},
                  WholeNumber(0, INT32_MAX, &flags->top_k));
  command.AddFlag({.name = "--min-p",
                   .value_name = "P",
                   .help = "Least probability, relative to the best token's"},
                  Number(kProbabilities, &flags->min_p));
  command.AddFlag({.name = "--repetition-penalty",
                   .value_name = "R",
                   .help = "Above 1: tokens that occurred become less likely"},
                  Number(kRepetitionPenalties, &flags->repetition_penalty));
}

}  // namespace

Command& AddGenerateCommand(Command& program, GenerateFlags* flags) {
  Command& command =
      program.AddCommand("generate", "Generate text after a prompt");
  AddPromptFlags(command, flags);
  command.AddFlag({.name = "--max-tokens",
                   .value_name = "N",
                   .help = "Tokens to generate at most (default 512, or what "
                           "the context leaves)"},
                  WholeNumber(1, INT32_MAX, &flags->max_tokens));
  AddSamplingFlags(command, flags);
  command.AddFlag({.name = "--stop",
                   .value_name = "TEXT",
                   .help = "Text that ends the answer; may be given several "
                           "times",
                   .values = Flag::Values::kOneEachTime},
                  EachText(&flags->stop));
  command.AddFlag({.name = "--logprobs",
                   .value_name = "N",
                   .help = "With --json alone: log probabilities, with N "
                           "alternatives a token"},
                  WholeNumber(0, kMaxTopLogprobs, &flags->logprobs));
  AddEngineFlags(command, &flags->engine);
  AddKvDiskFlags(command, &flags->kv_disk);
  command.AddFlag({.name = "--select",
                   .value_name = "SPEC",
                   .help = "What attention reads: auto (what the checkpoint "
                           "asks for), dense (everything), or a selector with "
                           "its parameters (quest:budget=2K); winnow select "
                           "list explains them"},
                  Text(&flags->engine.select));
  AddJsonFlag(command, "A JSON line a prompt, to standard output or to FILE",
              &flags->engine);
  return command;
}

}  // namespace winnow
