// CallScanner: reads one call at the beginning of a text that comes in pieces.
#ifndef WINNOW_TEXT_TOOLS_CALL_SCANNER_H_
#define WINNOW_TEXT_TOOLS_CALL_SCANNER_H_

#include <cstddef>
#include <string_view>

#include "text/tools/tool_call_format.h"

namespace winnow {

struct ScannedCall {
  enum class State {
    kOpen,  // more text may complete a call
    kCall,
    kNone,  // no call, whatever follows
  };
  State state = State::kOpen;
  // The offset behind the call; without a call, behind the text read so far.
  size_t end = 0;
  ToolCall call = {};
};

// For one call. The next call needs a new scanner.
class CallScanner {
 public:
  virtual ~CallScanner() = default;
  // `text` is the text of the last call with more behind it. Each byte is read
  // once. REQUIRES: the last result was kOpen.
  virtual ScannedCall Scan(std::string_view text) = 0;
};

// True if `text` has `word` at `at`, or may have it when more text comes.
inline bool MayHaveAt(std::string_view text, size_t at, std::string_view word) {
  const std::string_view rest = text.substr(at);
  return rest.starts_with(word) || word.starts_with(rest);
}

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_CALL_SCANNER_H_
