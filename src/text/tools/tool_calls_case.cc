#include "text/tools/tool_calls_case.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <utility>

namespace winnow {
namespace {

std::vector<std::string> CutAtRandom(const std::string& text, size_t longest,
                                     std::mt19937& random) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t size = 1 + random() % longest;
    pieces.push_back(text.substr(at, size));
    at += size;
  }
  return pieces;
}

}  // namespace

std::vector<AnswerPart> PartsOf(ToolCallFormat format,
                                std::span<const CallableTool> tools,
                                const std::vector<std::string>& pieces,
                                CallPlaces places) {
  ToolCallParser parser(format, std::make_shared<const ParameterTypes>(tools),
                        places);
  std::vector<AnswerPart> all;
  for (const std::string& piece : pieces) {
    for (AnswerPart& part : parser.Push(piece)) all.push_back(std::move(part));
  }
  for (AnswerPart& part : parser.Finish()) all.push_back(std::move(part));
  return all;
}

std::string Shown(const std::vector<AnswerPart>& parts) {
  std::string shown, text;
  const auto end_text = [&] {
    if (!text.empty()) shown += "'" + text + "' ";
    text.clear();
  };
  for (const AnswerPart& part : parts) {
    text += part.text;
    if (!part.call) continue;
    end_text();
    shown += part.call->name + "(" + part.call->arguments_json + ") ";
  }
  end_text();
  if (!shown.empty()) shown.pop_back();
  return shown;
}

void ExpectTheSameInPieces(ToolCallFormat format,
                           std::span<const CallableTool> tools,
                           const std::string& text, CallPlaces places) {
  const std::string whole = Shown(PartsOf(format, tools, {text}, places));
  for (size_t cut = 1; cut < text.size(); ++cut) {
    EXPECT_EQ(Shown(PartsOf(format, tools,
                            {text.substr(0, cut), text.substr(cut)}, places)),
              whole)
        << text << " cut at " << cut;
  }
  std::mt19937 random(7);
  for (size_t longest = 1; longest <= 8; ++longest) {
    const auto pieces = CutAtRandom(text, longest, random);
    EXPECT_EQ(Shown(PartsOf(format, tools, pieces, places)), whole) << text;
  }
}

}  // namespace winnow
