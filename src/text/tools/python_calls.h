// Calls as Python writes them.
#ifndef WINNOW_TEXT_TOOLS_PYTHON_CALLS_H_
#define WINNOW_TEXT_TOOLS_PYTHON_CALLS_H_

#include <optional>

#include "text/tools/call_scanner.h"

namespace winnow {

// NAME(KEY=LITERAL, ...), from its name to its closing bracket. There is no
// call where an argument has no name, is no literal (LiteralReader) or occurs
// twice.
class PythonCallScanner : public CallScanner {
 public:
  ScannedCall Scan(std::string_view text) override;

 private:
  // One step; false where more text is needed, or nothing is left to do.
  bool Step(std::string_view text);
  bool StepName(std::string_view text);
  bool StepArguments(std::string_view text);
  bool StepString(std::string_view text);

  enum class Phase { kName, kArguments, kString, kDone, kNone };

  Phase phase_ = Phase::kName;
  size_t at_ = 0;  // what has been looked at
  int depth_ = 0;  // of brackets
  char quote_ = 0;
  bool triple_ = false;
  bool escaped_ = false;
};

// `text` as one such call.
std::optional<ToolCall> PythonCallOf(std::string_view text);

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_PYTHON_CALLS_H_
