#include "serve/api/untold_turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/ascii.h"
#include "text/grammar/json_slices.h"

namespace winnow {
namespace {

// Letters alone: no template escapes them.
constexpr std::string_view kSystemMark = "zqxwjsystem";
constexpr std::string_view kCallMark = "zqxwjcall";
constexpr std::string_view kResultMark = "zqxwjresult";

// None where the template refuses the chat.
std::optional<std::string> RenderedLower(const ChatTemplate& chat_template,
                                         const std::string& messages) {
  ChatInput input;
  input.messages_json = messages;
  Result<std::string> text = chat_template.Render(input);
  if (!text.ok()) return std::nullopt;
  std::ranges::transform(*text, text->begin(), ToLower);
  return *std::move(text);
}

std::string SystemChat() {
  return fmt::format(R"([{{"role":"system","content":"{}"}},)"
                     R"({{"role":"user","content":"Hello"}}])",
                     kSystemMark);
}

std::string ToolChat() {
  return fmt::format(
      R"([{{"role":"user","content":"Hello"}},{{"role":"assistant",)"
      R"("content":"","tool_calls":[{{"id":"abcdefghi","type":"function",)"
      R"("function":{{"name":"{}","arguments":{{}}}}}}]}},)"
      R"({{"role":"tool","tool_call_id":"abcdefghi","content":"{}"}},)"
      R"({{"role":"user","content":"Go on"}}])",
      kCallMark, kResultMark);
}

}  // namespace

UntoldTurns UntoldTurns::Of(const ChatTemplate& chat_template) {
  UntoldTurns untold;
  const auto lacks = [](const std::string& text, std::string_view mark) {
    return text.find(mark) == std::string::npos;
  };
  if (const auto text = RenderedLower(chat_template, SystemChat())) {
    untold.system = lacks(*text, kSystemMark);
  }
  if (const auto text = RenderedLower(chat_template, ToolChat())) {
    untold.calls = lacks(*text, kCallMark);
    untold.results = lacks(*text, kResultMark);
  }
  return untold;
}

std::vector<std::string> UntoldTurns::NamesIn(std::string_view messages_json,
                                              std::string_view field) const {
  if (!system && !calls && !results) return {};
  bool has_system = false, has_calls = false, has_results = false;
  for (const std::string_view message : ElementsOf(messages_json)) {
    const std::string_view role = MemberOf(message, "role");
    has_system |= role == R"("system")";
    has_results |= role == R"("tool")";
    has_calls |= MemberOf(message, "tool_calls").starts_with('[');
  }
  std::vector<std::string> names;
  if (system && has_system) names.push_back(fmt::format("{}.system", field));
  if (calls && has_calls) names.push_back(fmt::format("{}.tool_calls", field));
  if (results && has_results) names.push_back(fmt::format("{}.tool", field));
  return names;
}

}  // namespace winnow
