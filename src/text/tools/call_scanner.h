// CallScanner: one call at the beginning of a text that comes in pieces.
#ifndef WINNOW_TEXT_TOOLS_CALL_SCANNER_H_
#define WINNOW_TEXT_TOOLS_CALL_SCANNER_H_

#include <cstddef>
#include <string_view>

#include "text/tools/tool_call_format.h"

namespace winnow {

struct ScannedCall {
  enum class State {
    kOpen,  // more of the text may make it one
    kCall,
    kNone,  // it is none, whatever comes
  };
  State state = State::kOpen;
  // Of the text: behind the call, or, where there is none, behind what has been
  // looked at.
  size_t end = 0;
  ToolCall call = {};
};

// For one call: a new one for the next.
class CallScanner {
 public:
  virtual ~CallScanner() = default;
  // `text`: what it was before, and what has come since. A byte is looked at
  // once. REQUIRES: it was kOpen before.
  virtual ScannedCall Scan(std::string_view text) = 0;
};

// Whether `text` has `word` at `at`, or may have it when more has come.
inline bool MayHaveAt(std::string_view text, size_t at, std::string_view word) {
  const std::string_view rest = text.substr(at);
  return rest.starts_with(word) || word.starts_with(rest);
}

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_CALL_SCANNER_H_
