#include "cli/eval/eval.h"

#include <filesystem>

#include "cli/command/command.h"
#include "cli/command/flag_value.h"

namespace winnow {

namespace {

void AddSelectFlag(Command& command, EvalFlags* flags) {
  const auto take = [flags, given = false](const std::string& spec) mutable {
    std::string& list = flags->engine.select;
    list = given ? list + "," + spec : spec;
    given = true;
    return std::string();
  };
  command.AddFlag({.name = "--select",
                   .value_name = "SPEC",
                   .help = "What attention reads: auto (what the checkpoint "
                           "asks for), dense (everything), or a selector with "
                           "its parameters (quest:budget=2K); several, or a "
                           "list with commas, are each evaluated; winnow "
                           "select list explains them",
                   .values = Flag::Values::kOneEachTime},
                  take);
}

}  // namespace

Command& AddEvalCommand(Command& program, EvalFlags* flags) {
  Command& command = program.AddCommand(
      "eval", "Answer the questions of task files and say how many are right");
  AddEngineFlags(command, &flags->engine);
  AddKvDiskFlags(command, &flags->kv_disk);
  AddTaskFlags(command,
               "Task files: JSON lines with task, length, answers, and prompt "
               "or context and question",
               &flags->tasks);
  command.AddFlag({.name = "--match",
                   .value_name = "contains|exact|regex",
                   .help = "When it is right: all answers occur in it "
                           "(default), it is the answers, or each is found"},
                  Text(&flags->match));
  command.AddFlag({.name = "--resume",
                   .value_name = "FILE",
                   .help = "Keep answers in FILE until all are there, and go "
                           "on from those it has (default with --json FILE: "
                           "FILE.progress.jsonl)"},
                  Word(&flags->resume));
  AddSelectFlag(command, flags);
  AddJsonFlag(command, "The table as JSON, to standard output or to FILE",
              &flags->engine);
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
