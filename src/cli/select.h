// winnow select list: the selectors there are, and how they are asked for.
#ifndef WINNOW_CLI_SELECT_H_
#define WINNOW_CLI_SELECT_H_

#include <string>

#include "base/result.h"

namespace CLI {
class App;
}

namespace winnow {

struct SelectFlags {
  std::string name;  // empty: all
};

CLI::App* AddSelectCommand(CLI::App& app, SelectFlags* flags);
// Returns the exit status.
Result<int> RunSelect(const SelectFlags& flags);

}  // namespace winnow

#endif  // WINNOW_CLI_SELECT_H_
