// winnow select list: describes the selectors and their parameters.
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
