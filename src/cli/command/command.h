// Command: the program's commands and their flags. Only command.cc includes the
// library that parses them, because it adds six seconds to a source's compile
// time.
#ifndef WINNOW_CLI_COMMAND_COMMAND_H_
#define WINNOW_CLI_COMMAND_COMMAND_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace winnow {

// Takes a value as typed. Returns "", or the error as words to follow the
// flag's name: "must be in [0, 1], is 1.5".
using TakeValue = std::function<std::string(const std::string& text)>;

// A flag and its text in --help. packaging/ makes the manual and the shells'
// completions from --help: a value among a few is named "one|other", a path
// FILE, FOLDER or DIR. kSeveral takes words up to the next flag, for a command
// whose values all have flags.
struct Flag {
  enum class Values { kOne, kNone, kOneOrNone, kOneEachTime, kSeveral };

  std::string name;             // "--top-p"; "MODEL": a positional word
  std::string value_name = {};  // "P"
  std::string help = {};
  Values values = Values::kOne;
  bool required = false;
  // Another spelling that --help does not show: "-tp".
  std::string alias = {};
  bool hidden = false;  // not shown by --help
};

// One command with its flags and subcommands, which it owns. Used at start-up,
// on one thread.
class Command {
 public:
  // The program itself. --version prints `version`, --help ends with `footer`.
  Command(const std::string& description, const std::string& version,
          const std::string& footer);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Adds a subcommand; the command line must then name one. Lives as long as
  // this. `former_name`, if not empty, is accepted for one more release, with a
  // line on standard error that gives the new name.
  Command& AddCommand(const std::string& name, const std::string& description,
                      const std::string& former_name = "");
  // Sets the last line of this command's --help.
  void SetFooter(const std::string& footer);
  // Adds a flag. `take` gets each value, or "" if there is none, in the order
  // of the command line.
  void AddFlag(const Flag& flag, TakeValue take);

  // Parses the command line and takes every value. The error is about the first
  // wrong value, or an unknown flag with the nearest names. False if --help or
  // --version was requested and printed. REQUIRES: this is the program; called
  // once.
  Result<bool> Parse(int argc, char** argv);

  // True if the command line names this command.
  bool chosen() const;

 private:
  struct Taken {
    Flag flag;
    CLI::Option* option;
    TakeValue take;
  };

  explicit Command(CLI::App* app);
  // The words behind this command's name are those of `words` from `first` on.
  using Words = std::vector<std::string>;
  // Replaces aliases by names.
  void SpellOut(Words& words, size_t first) const;
  // Finds the error in a refused command line.
  Status CheckWords(const Words& words, size_t first) const;
  Status CheckFlags(const Words& words, size_t first) const;
  // Fails if a flag of one value occurs twice. The message omits the value,
  // which may be a key.
  Status CheckOnce(const Words& words, size_t first) const;
  // Null if no subcommand has the name at `first`.
  const Command* Below(const Words& words, size_t first) const;
  std::string NearestFlags(std::string_view written) const;
  Status TakeValues() const;

  std::unique_ptr<CLI::App> program_;  // null: the parent owns the app
  CLI::App* app_;
  std::string former_name_;  // empty: none
  std::vector<Taken> flags_;
  std::vector<std::unique_ptr<Command>> commands_;
};

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_COMMAND_H_
