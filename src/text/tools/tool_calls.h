// ToolCallParser: separates tool calls from the text of a generated answer.
#ifndef WINNOW_TEXT_TOOLS_TOOL_CALLS_H_
#define WINNOW_TEXT_TOOLS_TOOL_CALLS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tools/call_scanner.h"
#include "text/tools/parameter_types.h"
#include "text/tools/tool_call_format.h"

namespace winnow {

// A piece of an answer: text, or one call.
struct AnswerPart {
  std::string text = {};
  std::optional<ToolCall> call = {};
};

// Where calls may stand: beside text, or alone. In an answer of calls alone, an
// answer that begins as text is text to its end.
enum class CallPlaces : uint8_t { kBesideText, kAlone };

// Takes an answer's text as it comes and returns what is certain: text that can
// belong to no call, and complete calls. White space beside calls is dropped. A
// malformed call stays text: invalid JSON, no name, arguments that are no
// object, or a missing tag. The parts do not depend on the pieces in which the
// text comes, except for where texts are cut.
//
// Owns the held text; one thread at a time. A byte costs one step.
class ToolCallParser {
 public:
  // `tools` may be called. A marked call of an unknown tool is a call too. An
  // unmarked call of an unknown tool is text.
  ToolCallParser(ToolCallFormat format,
                 std::shared_ptr<const ParameterTypes> tools,
                 CallPlaces places = CallPlaces::kBesideText);

  std::vector<AnswerPart> Push(std::string_view piece);
  // Ends the text and returns the rest. No Push may follow.
  std::vector<AnswerPart> Finish();

 private:
  enum class State : uint8_t {
    kFirst,   // before it is known whether the answer is calls or text
    kText,    // before a marker
    kBegin,   // an object, a list or a name may begin
    kName,    // for kMarked: before its arguments
    kValue,   // in an object or list
    kScan,    // in a call that scanner_ reads
    kClose,   // behind a call: the end tag or another call may come
    kAnswer,  // text to the end
  };

  // One step on the held text; false if more text is needed.
  bool Step();
  bool StepText();
  // Decides whether the answer is calls or text.
  bool StepFirst();
  bool StepBegin();
  bool StepPythonBegin();
  bool StepName();
  bool StepValue();
  bool StepScan();
  bool StepClose();
  bool StepBareObjectClose();
  bool StepPythonClose();
  // The offset of the form's first marker in held_ and its length. Without one,
  // the offset at which a marker may begin.
  struct Marked {
    size_t at = 0;
    size_t num_bytes = 0;
  };
  Marked FindMarker() const;
  // A call may begin at held_[begin].
  void BeginScan(size_t begin);
  // Assigns the held text before `end` to calls.
  void TakeHeld(size_t end, State next);
  void GiveText(std::string_view text);
  // Returns the text held since the marker as text.
  void GiveUp();
  bool TakeCalls(std::string_view value);
  bool IsKnown(std::string_view name) const;
  size_t SkipSpace(size_t from) const;
  // True if held_ has `word` at `from`, or may have it when more text comes.
  bool MayHave(std::string_view word, size_t from) const;
  bool Has(std::string_view word, size_t from) const;

  // For kPythonCalls: a fence around the calls.
  enum class Fence : uint8_t { kNone, kOpen, kClosed };

  const ToolCallFormat format_;
  const std::shared_ptr<const ParameterTypes> tools_;
  State state_;
  std::string held_;
  size_t at_ = 0;     // in held_: behind the text read so far
  size_t begin_ = 0;  // in held_: of the name or value
  std::string name_;  // for kMarked, whose value is the arguments alone
  std::unique_ptr<CallScanner> scanner_;  // for kScan
  bool marked_ = false;  // the scanned call stands behind its mark
  Fence fence_ = Fence::kNone;
  // Within a value.
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool any_call_ = false;
  std::vector<AnswerPart> parts_;  // to be returned
};

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_TOOL_CALLS_H_
