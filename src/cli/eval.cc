#include "cli/eval.h"

#include <CLI/CLI.hpp>
#include <filesystem>

namespace winnow {

CLI::App* AddEvalCommand(CLI::App& app, EvalFlags* flags) {
  CLI::App* command = app.add_subcommand(
      "eval", "Answer the questions of task files and say how many are right");
  AddEngineFlags(*command, &flags->engine);
  command
      ->add_option("FILE", flags->files,
                   "Task files: JSON lines with task, length, answers, and "
                   "prompt or context and question")
      ->required();
  command
      ->add_option("--match", flags->match,
                   "When an answer is right: contains (all answers occur in "
                   "it; default), exact (it is the answers), or regex (each "
                   "is found)")
      ->type_name("RULE");
  command
      ->add_option("--max-tokens", flags->max_tokens,
                   "Tokens to generate at most (default: twice the answer's, "
                   "and 32)")
      ->type_name("N");
  command->add_option("--limit", flags->limit, "The first N lines of each file")
      ->type_name("N");
  command->add_flag("--skip-bad", flags->skip_bad,
                    "Go on where a line is bad, and count those");
  command
      ->add_option("--resume", flags->resume,
                   "Keep answers in FILE until all are there, and go on from "
                   "those it has (default with --json FILE: "
                   "FILE.progress.jsonl)")
      ->type_name("FILE");
  command->get_option("--json")->description(
      "The table as JSON, to standard output or to FILE");
  command->get_option("--select")
      ->description(
          "What attention reads: auto (what the checkpoint asks for) or "
          "dense (everything); several, or a list with commas, are each "
          "evaluated")
      ->join(',');
  return command;
}

std::string EvalJournalPath(const EvalFlags& flags) {
  if (!flags.resume.empty()) return flags.resume;
  const std::string& json_file = flags.engine.json_file;
  // A device or a pipe has no file beside it.
  if (json_file.empty() || (std::filesystem::exists(json_file) &&
                            !std::filesystem::is_regular_file(json_file))) {
    return "";
  }
  return json_file + ".progress.jsonl";
}

}  // namespace winnow
