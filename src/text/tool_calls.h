// Calls of tools in a generated answer: what the model wrote, taken apart.
#ifndef WINNOW_TEXT_TOOL_CALLS_H_
#define WINNOW_TEXT_TOOL_CALLS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace winnow {

// How a model writes a call, which its chat template shows.
enum class ToolCallFormat : uint8_t {
  // <tool_call>{"name": ..., "arguments": {...}}</tool_call>, any number,
  // between text (Hermes, Qwen).
  kTagged,
  // The whole answer is {"name": ..., "parameters": {...}}, or several of them
  // with semicolons between (Llama 3).
  kBareObject,
  // [TOOL_CALLS] and a list of objects, or [TOOL_CALLS]NAME[ARGS]{...} any
  // number of times, after text (Mistral).
  kMarked,
};

// The form that a template with this source asks for; none where it has no
// tools, or others' forms.
std::optional<ToolCallFormat> ToolCallFormatOf(std::string_view source);

// The texts that a form's parser looks for; where they are special tokens they
// must not be left out of the text.
std::span<const std::string_view> MarkersOf(ToolCallFormat format);

struct ToolCall {
  std::string name;
  std::string arguments_json;  // an object
};

// A piece of an answer: text, or one call.
struct AnswerPart {
  std::string text = {};
  std::optional<ToolCall> call = {};
};

// Takes an answer's text as it comes and gives what is certain: text that can
// belong to no call, and calls, each when it is whole. White space beside calls
// is dropped. What looks like a call and is none (JSON that is not valid, no
// name, arguments that are no object) is text as it stands. The parts do not
// depend on the pieces in which the text comes, but for where texts are cut.
//
// Owns what it holds back; one thread at a time. A byte costs one step.
class ToolCallParser {
 public:
  // `names`: of the tools that may be called. Others are called too where the
  // form marks a call; where it does not, such an object is text.
  ToolCallParser(ToolCallFormat format, std::vector<std::string> names);

  std::vector<AnswerPart> Push(std::string_view piece);
  // No text will come: the rest. Nothing is pushed afterwards.
  std::vector<AnswerPart> Finish();

 private:
  enum class State : uint8_t {
    kText,    // before a marker, if one comes at all
    kBegin,   // where an object, a list or a name may begin
    kName,    // of kMarked: up to its arguments
    kValue,   // in an object or list
    kClose,   // behind one, where the end tag or another one may come
    kAnswer,  // text, whatever comes
  };

  // One step on what is held; false where more text is needed.
  bool Step();
  bool StepText();
  bool StepBegin();
  bool StepName();
  bool StepValue();
  bool StepClose();
  void GiveText(std::string_view text);
  // What was held since the marker is text after all.
  void GiveUp();
  bool TakeCalls(std::string_view value);
  size_t SkipSpace(size_t from) const;
  // Whether held_ has `word` at `from`, or may have it when more has come.
  bool MayHave(std::string_view word, size_t from) const;
  bool Has(std::string_view word, size_t from) const;

  const ToolCallFormat format_;
  const std::vector<std::string> names_;
  State state_;
  std::string held_;
  size_t at_ = 0;     // in held_: what has been looked at
  size_t begin_ = 0;  // in held_: of the name or value
  std::string name_;  // of kMarked, with arguments alone as value
  // Within a value.
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool any_call_ = false;
  std::vector<AnswerPart> parts_;  // to be given
};

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOL_CALLS_H_
