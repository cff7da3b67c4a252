#include "cli/command/command.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <map>

#include "sparse/spec/spec.h"

namespace winnow {
namespace {

constexpr size_t kHelpColumn = 34;
constexpr size_t kNumNearest = 3;

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

// "--name=value" and "-n": the part before a value; empty where it is none, as
// a negative number is.
std::string_view FlagNameOf(std::string_view word) {
  const bool is_long = word.size() > 2 && word.starts_with("--");
  const bool is_short = word.size() > 1 && word[0] == '-' &&
                        std::isalpha(static_cast<unsigned char>(word[1])) != 0;
  if (!is_long && !is_short) return {};
  return word.substr(0, word.find('='));
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
                             const std::string& description,
                             const std::string& former_name) {
  CLI::App* app = app_->add_subcommand(name, description);
  app->footer("");
  app_->require_subcommand(1);
  commands_.push_back(std::unique_ptr<Command>(new Command(app)));
  commands_.back()->former_name_ = former_name;
  return *commands_.back();
}

void Command::AddFlag(const Flag& flag, TakeValue take) {
  CLI::Option* option = nullptr;
  if (flag.values == Flag::Values::kNone) {
    option = app_->add_flag(flag.name, flag.help)->disable_flag_override();
  } else {
    option = AddValues(*app_, flag);
  }
  if (flag.hidden) option->group("");
  flags_.push_back({.flag = flag, .option = option, .take = std::move(take)});
}

void Command::SetFooter(const std::string& footer) { app_->footer(footer); }

Result<bool> Command::Parse(int argc, char** argv) {
  CHECK(program_ != nullptr);
  Words words(argv + std::min(argc, 1), argv + argc);
  SpellOut(words, 0);
  try {
    // The library takes them from the end.
    app_->parse(Words(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    // The library's own way of ending: --help, --version, or a usage error.
    if (error.get_exit_code() == 0) {
      app_->exit(error);
      return false;
    }
    RETURN_IF_ERROR(CheckWords(words, 0));
    return MakeError(ErrorCode::kInvalidArgument, "{}", error.what());
  }
  RETURN_IF_ERROR(TakeValues());
  return true;
}

bool Command::chosen() const { return app_->parsed(); }

const Command* Command::Below(const Words& words, size_t first) const {
  if (first >= words.size()) return nullptr;
  for (const auto& command : commands_) {
    if (command->app_->get_name() == words[first]) return command.get();
    if (!words[first].empty() && command->former_name_ == words[first]) {
      return command.get();
    }
  }
  return nullptr;
}

void Command::SpellOut(Words& words, size_t first) const {
  if (const Command* below = Below(words, first)) {
    const std::string name = below->app_->get_name();
    if (words[first] != name) {
      fmt::print(stderr,
                 "winnow: {} is now called {}; the old name goes in the next "
                 "release\n",
                 words[first], name);
      words[first] = name;
    }
    return below->SpellOut(words, first + 1);
  }
  for (const Taken& taken : flags_) {
    const std::string& alias = taken.flag.alias;
    for (size_t i = first; i < words.size() && !alias.empty(); ++i) {
      if (FlagNameOf(words[i]) != alias) continue;
      words[i].replace(0, alias.size(), taken.flag.name);
    }
  }
}

// Finds what the library would tell in other words, or not at all.
Status Command::CheckWords(const Words& words, size_t first) const {
  if (const Command* below = Below(words, first)) {
    return below->CheckWords(words, first + 1);
  }
  const std::string word = first < words.size() ? words[first] : "";
  std::string names;
  for (const auto& command : commands_) {
    const bool last = command == commands_.back();
    names += (names.empty() ? ""
              : last        ? " or "
                            : ", ") +
             command->app_->get_name();
  }
  if (!names.empty() && !word.starts_with("-")) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "command must be {}, is \"{}\"", names, word);
  }
  return CheckFlags(words, first);
}

Status Command::CheckOnce(const Words& words, size_t first) const {
  std::map<const Flag*, int> times;
  for (size_t i = first; i < words.size() && words[i] != "--"; ++i) {
    const std::string_view name = FlagNameOf(words[i]);
    const auto found = std::ranges::find_if(flags_, [&](const Taken& taken) {
      return !name.empty() && taken.flag.name == name;
    });
    if (found == flags_.end()) continue;
    const Flag& flag = found->flag;
    const bool takes_next = flag.values == Flag::Values::kOne ||
                            flag.values == Flag::Values::kOneEachTime;
    if (takes_next && words[i] == name) ++i;  // whatever it looks like
    if (flag.values != Flag::Values::kOne &&
        flag.values != Flag::Values::kOneOrNone) {
      continue;
    }
    if (++times[&flag] > 1) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{} must be given once, is given again", flag.name);
    }
  }
  return Ok{};
}

Status Command::CheckFlags(const Words& words, size_t first) const {
  for (size_t i = first; i < words.size() && words[i] != "--"; ++i) {
    const std::string_view name = FlagNameOf(words[i]);
    if (name.empty() || app_->get_option_no_throw(std::string(name))) continue;
    const Words path(words.begin(), words.begin() + static_cast<long>(first));
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} is no flag of winnow{}{}, did you mean {}?", name,
                     first == 0 ? "" : " ", fmt::join(path, " "),
                     NearestFlags(name));
  }
  RETURN_IF_ERROR(CheckOnce(words, first));
  for (const Taken& taken : flags_) {
    if (taken.option->get_expected_max() > 0) continue;
    for (size_t i = first; i < words.size(); ++i) {
      if (words[i].starts_with(taken.flag.name + "=")) {
        return MakeError(ErrorCode::kInvalidArgument,
                         "{} takes no value, is {}", taken.flag.name, words[i]);
      }
    }
  }
  return Ok{};
}

std::string Command::NearestFlags(std::string_view written) const {
  std::vector<std::string_view> names;
  for (const Taken& taken : flags_) {
    const bool shown = taken.flag.name.starts_with("-") && !taken.flag.hidden;
    if (shown) names.push_back(taken.flag.name);
  }
  names.emplace_back("--help");
  std::string nearest;
  for (size_t i = std::min(names.size(), kNumNearest); i > 0; --i) {
    const std::string_view name = NearestName(written, names);
    if (!nearest.empty()) nearest += i == 1 ? " or " : ", ";
    nearest += name;
    std::erase(names, name);
  }
  return nearest;
}

Status Command::TakeValues() const {
  // The library gathers a flag's values; their order among the flags is that
  // of its record of them.
  std::map<const CLI::Option*, size_t> num_taken;
  for (const CLI::Option* option : app_->parse_order()) {
    for (const Taken& taken : flags_) {
      if (taken.option != option) continue;
      const std::string& text = option->results().at(num_taken[option]++);
      const std::string complaint = taken.take(text);
      if (complaint.empty()) continue;
      return MakeError(ErrorCode::kInvalidArgument, "{} {}", taken.flag.name,
                       complaint);
    }
  }
  for (const Taken& taken : flags_) {
    // To the library, "[a,b]" is two values of a flag that takes several.
    const size_t num_values = taken.option->results().size();
    const bool several = taken.flag.values == Flag::Values::kSeveral;
    if (!several || num_values == num_taken[taken.option]) continue;
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} must be words without brackets around them",
                     taken.flag.name);
  }
  for (const auto& command : commands_) {
    if (command->chosen()) RETURN_IF_ERROR(command->TakeValues());
  }
  return Ok{};
}

}  // namespace winnow
