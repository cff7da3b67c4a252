// PythonCallScanner: calls in Python's syntax.
#ifndef WINNOW_TEXT_TOOLS_PYTHON_CALLS_H_
#define WINNOW_TEXT_TOOLS_PYTHON_CALLS_H_

#include <optional>

#include "text/tools/call_scanner.h"

namespace winnow {

// Reads NAME(KEY=LITERAL, ...), up to the closing bracket. There is no call if
// an argument has no name, is no literal (LiteralReader) or occurs twice.
class PythonCallScanner : public CallScanner {
 public:
  ScannedCall Scan(std::string_view text) override;

 private:
  // One step; false if more text is needed or the call has ended.
  bool Step(std::string_view text);
  bool StepName(std::string_view text);
  bool StepArguments(std::string_view text);
  bool StepString(std::string_view text);

  enum class Phase { kName, kArguments, kString, kDone, kNone };

  Phase phase_ = Phase::kName;
  size_t at_ = 0;  // behind the text read so far
  int depth_ = 0;  // open brackets
  char quote_ = 0;
  bool triple_ = false;
  bool escaped_ = false;
};

// The call that makes up all of `text`; none if `text` is not one call.
std::optional<ToolCall> PythonCallOf(std::string_view text);

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_PYTHON_CALLS_H_
