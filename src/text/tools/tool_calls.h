// Calls of tools in a generated answer: what the model wrote, taken apart.
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

// Where calls stand: between text, or in an answer that is nothing else, so
// that one that begins as text is text to its end.
enum class CallPlaces : uint8_t { kBesideText, kAlone };

// Takes an answer's text as it comes and gives what is certain: text that can
// belong to no call, and calls, each when it is whole. White space beside calls
// is dropped. What looks like a call and is none (JSON that is not valid, no
// name, arguments that are no object, a tag that is missing) is text as it
// stands. The parts do not depend on the pieces in which the text comes, but
// for where texts are cut.
//
// Owns what it holds back; one thread at a time. A byte costs one step.
class ToolCallParser {
 public:
  // `tools`: that may be called. Others are called too where the form marks a
  // call; where it does not, and where a model has left its mark out, such a
  // call is text.
  ToolCallParser(ToolCallFormat format,
                 std::shared_ptr<const ParameterTypes> tools,
                 CallPlaces places = CallPlaces::kBesideText);

  std::vector<AnswerPart> Push(std::string_view piece);
  // No text will come: the rest. Nothing is pushed afterwards.
  std::vector<AnswerPart> Finish();

 private:
  enum class State : uint8_t {
    kFirst,   // of an answer that is calls or text, before it is known which
    kText,    // before a marker, if one comes at all
    kBegin,   // where an object, a list or a name may begin
    kName,    // of kMarked: up to its arguments
    kValue,   // in an object or list
    kScan,    // in a call that a scanner reads
    kClose,   // behind one, where the end tag or another one may come
    kAnswer,  // text, whatever comes
  };

  // One step on what is held; false where more text is needed.
  bool Step();
  bool StepText();
  // Of an answer that is calls or text: which of both it is.
  bool StepFirst();
  bool StepBegin();
  bool StepPythonBegin();
  bool StepName();
  bool StepValue();
  bool StepScan();
  bool StepClose();
  bool StepBareObjectClose();
  bool StepPythonClose();
  // Where in held_ the first marker of the form begins, and its length; of
  // none, where one may begin.
  struct Marked {
    size_t at = 0;
    size_t num_bytes = 0;
  };
  Marked FindMarker() const;
  // A call may begin at held_[begin].
  void BeginScan(size_t begin);
  // What is held up to `end` belongs to calls.
  void TakeHeld(size_t end, State next);
  void GiveText(std::string_view text);
  // What was held since the marker is text after all.
  void GiveUp();
  bool TakeCalls(std::string_view value);
  bool IsKnown(std::string_view name) const;
  size_t SkipSpace(size_t from) const;
  // Whether held_ has `word` at `from`, or may have it when more has come.
  bool MayHave(std::string_view word, size_t from) const;
  bool Has(std::string_view word, size_t from) const;

  // Of kPythonCalls: a fence around the calls.
  enum class Fence : uint8_t { kNone, kOpen, kClosed };

  const ToolCallFormat format_;
  const std::shared_ptr<const ParameterTypes> tools_;
  State state_;
  std::string held_;
  size_t at_ = 0;     // in held_: what has been looked at
  size_t begin_ = 0;  // in held_: of the name or value
  std::string name_;  // of kMarked, with arguments alone as value
  std::unique_ptr<CallScanner> scanner_;  // of kScan
  bool marked_ = false;  // the call that is scanned is behind its mark
  Fence fence_ = Fence::kNone;
  // Within a value.
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool any_call_ = false;
  std::vector<AnswerPart> parts_;  // to be given
};

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_TOOL_CALLS_H_
