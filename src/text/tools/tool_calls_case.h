// ToolCallsCase: answers parsed whole and in pieces, for tests of tool calls.
#ifndef WINNOW_TEXT_TOOLS_TOOL_CALLS_CASE_H_
#define WINNOW_TEXT_TOOLS_TOOL_CALLS_CASE_H_

#include <span>
#include <string>
#include <vector>

#include "text/tools/tool_calls.h"

namespace winnow {

std::vector<AnswerPart> PartsOf(ToolCallFormat format,
                                std::span<const CallableTool> tools,
                                const std::vector<std::string>& pieces,
                                CallPlaces places = CallPlaces::kBesideText);

// The parts as one line: text in quotes, calls as NAME(ARGUMENTS). Adjacent
// texts are joined.
std::string Shown(const std::vector<AnswerPart>& parts);

// A text, and its parts as they are shown.
struct ToolCallsCase {
  std::string text;
  std::string parsed;
};

// Expects equal parts wherever `text` is cut: once, byte by byte and at random.
void ExpectTheSameInPieces(ToolCallFormat format,
                           std::span<const CallableTool> tools,
                           const std::string& text,
                           CallPlaces places = CallPlaces::kBesideText);

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_TOOL_CALLS_CASE_H_
