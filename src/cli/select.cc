#include "cli/select.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "sparse/selector.h"

namespace winnow {
namespace {

void Print(const SelectorKind& kind) {
  std::string text =
      fmt::format("{}: {}\n  source: {}\n", kind.name, kind.title, kind.source);
  for (const SelectorParameter& parameter : kind.parameters) {
    text += fmt::format("  {:<24}{}\n",
                        fmt::format("{}={}", parameter.name, parameter.value),
                        parameter.meaning);
  }
  std::fputs(text.c_str(), stdout);
}

}  // namespace

CLI::App* AddSelectCommand(CLI::App& app, SelectFlags* flags) {
  CLI::App* command = app.add_subcommand(
      "select", "What --select may name, with parameters and sources");
  command->require_subcommand(1);
  CLI::App* list = command->add_subcommand(
      "list",
      "Every selector, or one: title, source, parameters as "
      "name=default");
  list->add_option("NAME", flags->name, "One of them")->type_name("");
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
    if (flags.name.empty() || kind->name == flags.name) Print(*kind);
  }
  return 0;
}

}  // namespace winnow
