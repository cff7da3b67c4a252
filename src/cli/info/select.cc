#include "cli/info/select.h"

#include <algorithm>

#include "cli/command/command.h"
#include "cli/command/flag_value.h"
#include "cli/command/output.h"
#include "sparse/spec/selector.h"

namespace winnow {
namespace {

void PrintKind(const SelectorKind& kind) {
  std::string text =
      fmt::format("{}: {}\n  source: {}\n", kind.name, kind.title, kind.source);
  if (!kind.differs.empty()) {
    text += fmt::format("  differs: {}\n", kind.differs);
  }
  for (const SelectorParameter& parameter : kind.parameters) {
    text += fmt::format("  {:<24}{}\n{:<26}{}\n",
                        fmt::format("{}={}", parameter.name, parameter.value),
                        parameter.meaning, "", RangeText(parameter.range));
  }
  Print(text);
}

}  // namespace

Command& AddSelectCommand(Command& program, SelectFlags* flags) {
  Command& command = program.AddCommand(
      "select", "What --select may name, with parameters and sources");
  Command& list =
      command.AddCommand("list",
                         "Every selector, or one: title, source, parameters as "
                         "name=default with their ranges");
  list.AddFlag({.name = "SELECTOR", .help = "One of them"}, Text(&flags->name));
  return command;
}

Result<int> RunSelect(const SelectFlags& flags) {
  std::vector<std::string_view> names;
  for (const SelectorKind* kind : AllSelectors()) names.push_back(kind->name);
  const bool known = std::ranges::find(names, flags.name) != names.end();
  if (!flags.name.empty() && !known) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "select list: \"{}\" is unknown, did you mean \"{}\"?",
                     flags.name, NearestName(flags.name, names));
  }
  for (const SelectorKind* kind : AllSelectors()) {
    if (flags.name.empty() || kind->name == flags.name) PrintKind(*kind);
  }
  return 0;
}

}  // namespace winnow
