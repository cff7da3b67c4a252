#include "cli/generate.h"

#include <CLI/CLI.hpp>

namespace winnow {
namespace {

// A repeatable flag that keeps its place among the other prompts.
void AddPromptFlag(CLI::App& command, const std::string& name,
                   Prompt::Kind kind, GenerateFlags* flags) {
  const std::string help =
      kind == Prompt::Kind::kText   ? "A prompt; may be given several times"
      : kind == Prompt::Kind::kFile ? "A file that holds a prompt"
                                    : "A user's message, put into the "
                                      "checkpoint's chat template";
  command
      .add_option_function<std::vector<std::string>>(
          name,
          [flags, kind](const std::vector<std::string>& values) {
            for (const std::string& value : values) {
              flags->prompts.push_back({kind, value});
            }
          },
          help)
      ->type_name(kind == Prompt::Kind::kFile ? "FILE" : "TEXT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void AddSamplingFlags(CLI::App& command, GenerateFlags* flags) {
  command
      .add_option("--max-tokens", flags->max_tokens,
                  "Tokens to generate at most (default 512)")
      ->type_name("N");
  command
      .add_option("--temperature", flags->temperature,
                  "0 takes the best token (default: the checkpoint's, else 0)")
      ->type_name("T");
  command.add_option("--top-p", flags->top_p, "Nucleus, in [0, 1]")
      ->type_name("P");
  command.add_option("--top-k", flags->top_k, "Best tokens kept (0: all)")
      ->type_name("N");
  command
      .add_option("--min-p", flags->min_p,
                  "Least probability, relative to the best token's")
      ->type_name("P");
  command
      .add_option("--repetition-penalty", flags->repetition_penalty,
                  "Above 1: tokens that occurred become less likely")
      ->type_name("R");
  command
      .add_option("--stop", flags->stop,
                  "Text that ends the answer; may be given several times")
      ->type_name("TEXT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option("--logprobs", flags->logprobs,
                  "With --json: log probabilities, with N alternatives a token")
      ->type_name("N");
}

}  // namespace

CLI::App* AddGenerateCommand(CLI::App& app, GenerateFlags* flags) {
  CLI::App* command =
      app.add_subcommand("generate", "Generate text after a prompt");
  AddPromptFlag(*command, "--prompt", Prompt::Kind::kText, flags);
  AddPromptFlag(*command, "--prompt-file", Prompt::Kind::kFile, flags);
  AddPromptFlag(*command, "--chat", Prompt::Kind::kChat, flags);
  AddSamplingFlags(*command, flags);
  AddEngineFlags(*command, &flags->engine);
  return command;
}

}  // namespace winnow
