#include "cli/command.h"

#include <CLI/CLI.hpp>
#include <map>

namespace winnow {
namespace {

constexpr size_t kHelpColumn = 34;

CLI::Option* AddValues(CLI::App& app, const Flag& flag) {
  CLI::Option* option = app.add_option(flag.name, flag.help);
  option->type_name(flag.value_name)->required(flag.required);
  if (flag.values == Flag::Values::kOneOrNone) option->expected(0, 1);
  if (flag.values == Flag::Values::kSeveral) {
    option->type_name(flag.value_name + "...");
    option->expected(-1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  if (flag.values == Flag::Values::kOneEachTime) {
    // A word without a flag takes all that are left.
    const bool is_word = !flag.name.starts_with("-");
    if (is_word) option->type_name(flag.value_name + "...");
    option->expected(is_word ? -1 : 1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(is_word);  // with it, "[a,b]" is two values
  }
  return option;
}

}  // namespace

Command::Command(const std::string& description, const std::string& version,
                 const std::string& footer)
    : program_(std::make_unique<CLI::App>(description, "winnow")),
      app_(program_.get()) {
  app_->set_version_flag("--version", version);
  app_->get_formatter()->column_width(kHelpColumn);
  app_->footer(footer);
}

Command::Command(CLI::App* app) : app_(app) {}

Command::~Command() = default;

Command& Command::AddCommand(const std::string& name,
                             const std::string& description) {
  CLI::App* app = app_->add_subcommand(name, description);
  app->footer("");
  app_->require_subcommand(1);
  commands_.push_back(std::unique_ptr<Command>(new Command(app)));
  return *commands_.back();
}

void Command::AddFlag(const Flag& flag, TakeValue take) {
  CLI::Option* option = nullptr;
  if (flag.values == Flag::Values::kNone) {
    option = app_->add_flag(flag.name, flag.help)->disable_flag_override();
  } else {
    option = AddValues(*app_, flag);
  }
  flags_.push_back({.name = flag.name,
                    .option = option,
                    .several = flag.values == Flag::Values::kSeveral,
                    .take = std::move(take)});
}

Result<bool> Command::Parse(int argc, char** argv) {
  CHECK(program_ != nullptr);
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // The library's own way of ending: --help, --version, or a usage error.
    if (error.get_exit_code() == 0) {
      app_->exit(error);
      return false;
    }
    RETURN_IF_ERROR(CheckWords(argc, argv));
    return MakeError(ErrorCode::kInvalidArgument, "{}", error.what());
  }
  RETURN_IF_ERROR(TakeValues());
  return true;
}

bool Command::chosen() const { return app_->parsed(); }

// Finds what the library would tell in other words, or not at all.
Status Command::CheckWords(int argc, char** argv) const {
  const std::string word = argc > 1 ? argv[1] : "";
  std::string names;
  for (const auto& command : commands_) {
    const std::string& name = command->app_->get_name();
    if (name == word) return command->CheckWords(argc - 1, argv + 1);
    const bool last = command == commands_.back();
    names += (names.empty() ? "" : last ? " or " : ", ") + name;
  }
  if (!names.empty() && !word.starts_with("-")) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "command must be {}, is \"{}\"", names, word);
  }
  for (const Taken& flag : flags_) {
    if (flag.option->get_expected_max() > 0) continue;
    for (int i = 1; i < argc; ++i) {
      const std::string_view given = argv[i];
      if (given.starts_with(flag.name + "=")) {
        return MakeError(ErrorCode::kInvalidArgument,
                         "{} takes no value, is {}", flag.name, given);
      }
    }
  }
  return Ok{};
}

Status Command::TakeValues() const {
  // The library gathers a flag's values; their order among the flags is that
  // of its record of them.
  std::map<const CLI::Option*, size_t> num_taken;
  for (const CLI::Option* option : app_->parse_order()) {
    for (const Taken& flag : flags_) {
      if (flag.option != option) continue;
      const std::string& text = option->results().at(num_taken[option]++);
      const std::string complaint = flag.take(text);
      if (complaint.empty()) continue;
      return MakeError(ErrorCode::kInvalidArgument, "{} {}", flag.name,
                       complaint);
    }
  }
  for (const Taken& flag : flags_) {
    // To the library, "[a,b]" is two values of a flag that takes several.
    const size_t num_values = flag.option->results().size();
    if (!flag.several || num_values == num_taken[flag.option]) continue;
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} must be words without brackets around them",
                     flag.name);
  }
  for (const auto& command : commands_) {
    if (command->chosen()) RETURN_IF_ERROR(command->TakeValues());
  }
  return Ok{};
}

}  // namespace winnow
