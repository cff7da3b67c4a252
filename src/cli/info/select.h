// winnow select list: the selectors there are, and how they are asked for.
#ifndef WINNOW_CLI_INFO_SELECT_H_
#define WINNOW_CLI_INFO_SELECT_H_

#include <string>

#include "base/result.h"

namespace winnow {

class Command;

struct SelectFlags {
  std::string name;  // empty: all
};

Command& AddSelectCommand(Command& program, SelectFlags* flags);
// Returns the exit status.
Result<int> RunSelect(const SelectFlags& flags);

}  // namespace winnow

#endif  // WINNOW_CLI_INFO_SELECT_H_
