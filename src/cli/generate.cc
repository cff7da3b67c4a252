#include "cli/generate.h"

#include <CLI/CLI.hpp>
#include <map>

#include "cli/whole_number.h"

namespace winnow {
namespace {

// The three kinds of prompts, each repeatable, in the order of the command
// line: the library gathers an option's values, so their places are its parse
// order's.
void AddPromptFlags(CLI::App& command, GenerateFlags* flags) {
  const std::map<const CLI::Option*, Prompt::Kind> kinds = {
      {command.add_option("--prompt", "A prompt; may be given several times"),
       Prompt::Kind::kText},
      {command.add_option("--prompt-file", "A file that holds a prompt"),
       Prompt::Kind::kFile},
      {command.add_option("--chat",
                          "A user's message, put into the checkpoint's chat "
                          "template"),
       Prompt::Kind::kChat}};
  for (const auto& [option, kind] : kinds) {
    command.get_option(option->get_name())
        ->type_name(kind == Prompt::Kind::kFile ? "FILE" : "TEXT")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  command.callback([&command, kinds, flags] {
    std::map<const CLI::Option*, size_t> num_taken;
    for (const CLI::Option* option : command.parse_order()) {
      const auto kind = kinds.find(option);
      if (kind == kinds.end()) continue;
      flags->prompts.push_back(
          {kind->second, option->results().at(num_taken[option]++)});
    }
  });
}

void AddSamplingFlags(CLI::App& command, GenerateFlags* flags) {
  command
      .add_option("--max-tokens", flags->max_tokens,
                  "Tokens to generate at most (default 512, or what the "
                  "context leaves)")
      ->type_name("N")
      ->check(WholeNumberIn(1, INT32_MAX));
  command
      .add_option("--temperature", flags->temperature,
                  "0 takes the best token (default: the checkpoint's, else 0)")
      ->type_name("T");
  command.add_option("--top-p", flags->top_p, "Nucleus, in [0, 1]")
      ->type_name("P");
  command.add_option("--top-k", flags->top_k, "Best tokens kept (0: all)")
      ->type_name("N")
      ->check(WholeNumberIn(0, INT32_MAX));
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
  AddPromptFlags(*command, flags);
  AddSamplingFlags(*command, flags);
  AddEngineFlags(*command, &flags->engine);
  return command;
}

}  // namespace winnow
