// The commands of the program and their flags. Only command.cc knows the
// library that reads them: a source that includes it takes six seconds more.
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

// Takes a value as it was typed. The answer is empty, or what is wrong with
// it, to follow the flag's name: "must be in [0, 1], is 1.5".
using TakeValue = std::function<std::string(const std::string& text)>;

// What is typed, and what --help says of it. The manual and the shells'
// completions are made from --help (packaging/): a value that is one of a few
// is named "one|other", one that is a path FILE, FOLDER or DIR. kSeveral: words
// up to the next flag, for a command whose values all have flags.
struct Flag {
  enum class Values { kOne, kNone, kOneOrNone, kOneEachTime, kSeveral };

  std::string name;             // "--top-p"; "MODEL": a word that needs no flag
  std::string value_name = {};  // "P"
  std::string help = {};
  Values values = Values::kOne;
  bool required = false;
  // Another spelling, which --help does not show: "-tp".
  std::string alias = {};
  bool hidden = false;  // from --help
};

// One command with its flags and the commands below it, which it owns. Used
// while the program starts, on one thread.
class Command {
 public:
  // The program itself; its --version prints `version`, its --help ends in
  // `footer`.
  Command(const std::string& description, const std::string& version,
          const std::string& footer);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // A command below this one, which must then be given one. Lives as long as
  // this. `former_name`, where there is one, is taken for a release more, with
  // a line on standard error that says the name of today.
  Command& AddCommand(const std::string& name, const std::string& description,
                      const std::string& former_name = "");
  // What --help of this command ends with: one line.
  void SetFooter(const std::string& footer);
  // `take` is called with each value, "" where there is none, in the order of
  // the command line.
  void AddFlag(const Flag& flag, TakeValue take);

  // Reads the command line; every value is taken, or the first that is wrong
  // is the error, which names the nearest flags where one is unknown. False
  // where --help or --version was asked for and printed.
  // REQUIRES: this is the program; called once.
  Result<bool> Parse(int argc, char** argv);

  // Whether the command line names this command.
  bool chosen() const;

 private:
  struct Taken {
    Flag flag;
    CLI::Option* option;
    TakeValue take;
  };

  explicit Command(CLI::App* app);
  // Of `words` those behind this command's name, from `first` on.
  using Words = std::vector<std::string>;
  // Puts names for aliases.
  void SpellOut(Words& words, size_t first) const;
  // Of a command line that was refused.
  Status CheckWords(const Words& words, size_t first) const;
  Status CheckFlags(const Words& words, size_t first) const;
  // A flag of one value stands in the words once. (No value is told: it may be
  // a key.)
  Status CheckOnce(const Words& words, size_t first) const;
  // Null where nothing is named so at `first`.
  const Command* Below(const Words& words, size_t first) const;
  std::string NearestFlags(std::string_view written) const;
  Status TakeValues() const;

  std::unique_ptr<CLI::App> program_;  // none: the app is the parent's
  CLI::App* app_;
  std::string former_name_;  // empty: none
  std::vector<Taken> flags_;
  std::vector<std::unique_ptr<Command>> commands_;
};

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_COMMAND_H_
