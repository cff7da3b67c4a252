// ToolCallFormat: the forms in which models write tool calls.
#ifndef WINNOW_TEXT_TOOLS_TOOL_CALL_FORMAT_H_
#define WINNOW_TEXT_TOOLS_TOOL_CALL_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace winnow {

// A model's form of a call, recognised from its chat template.
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
  // <tool_call><function=NAME><parameter=KEY>VALUE</parameter>...</function></tool_call>,
  // any number, between text (Qwen3-Coder, Qwen3.5).
  kParameterTags,
  // <|tool_call_start|>, lines of NAME(KEY=VALUE, ...) in Python's syntax,
  // perhaps between fences of three backquotes, <|tool_call_end|> (MiniCPM).
  kPythonCalls,
};

// The form that a template's source asks for; none if it has no tools, or
// another form.
std::optional<ToolCallFormat> ToolCallFormatOf(std::string_view source);

// The texts that a form's parser looks for. Special tokens among them must stay
// in the text.
std::span<const std::string_view> MarkersOf(ToolCallFormat format);

struct CallableTool {
  std::string name;             // letters, digits, "_", "-" and "."
  std::string parameters_json;  // a schema of an object; empty: any object
};

struct ToolCall {
  std::string name;
  std::string arguments_json;  // an object
};

// Tags and markers of the forms.
inline constexpr std::string_view kCallTag = "<tool_call>";
inline constexpr std::string_view kCallEndTag = "</tool_call>";
inline constexpr std::string_view kFunctionTag = "<function=";
inline constexpr std::string_view kFunctionEndTag = "</function>";
inline constexpr std::string_view kParameterTag = "<parameter=";
inline constexpr std::string_view kParameterEndTag = "</parameter>";
inline constexpr std::string_view kListMarker = "[TOOL_CALLS]";
inline constexpr std::string_view kCallIdMarker = "[CALL_ID]";
inline constexpr std::string_view kArgumentsMarker = "[ARGS]";
inline constexpr std::string_view kPythonMarker = "<|tool_call_start|>";
inline constexpr std::string_view kPythonEndMarker = "<|tool_call_end|>";
inline constexpr std::string_view kFence = "```";
inline constexpr std::string_view kPythonFence = "```python";

// Limit of a tool's or parameter's name.
inline constexpr size_t kMaxCallNameBytes = 128;
// Limit of nesting. A deeper text is no call and is not parsed.
inline constexpr int kMaxCallDepth = 64;

constexpr bool IsCallSpace(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// True for a byte that a tool's name may have.
constexpr bool IsCallNameByte(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return letter || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_TOOL_CALL_FORMAT_H_
