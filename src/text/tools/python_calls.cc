#include "text/tools/python_calls.h"

#include <set>
#include <string>
#include <utility>

#include "base/check.h"
#include "text/tools/literal_reader.h"

namespace winnow {

std::optional<ToolCall> PythonCallOf(std::string_view text) {
  LiteralReader reader(text);
  ToolCall call = {.name = std::string(reader.TakeName()),
                   .arguments_json = "{"};
  if (call.name.empty() || !reader.Take('(')) return std::nullopt;
  std::set<std::string_view> keys;
  bool comma = true;  // before the first too
  while (!reader.Take(')')) {
    const std::string_view key = reader.TakeName();
    if (!comma || key.empty() || !reader.Take('=')) return std::nullopt;
    if (!keys.insert(key).second) return std::nullopt;
    if (keys.size() > 1) call.arguments_json += ',';
    call.arguments_json += QuotedJson(key) + ":";
    if (!reader.TakeLiteral(call.arguments_json)) return std::nullopt;
    comma = reader.Take(',');
  }
  if (!reader.AtEnd()) return std::nullopt;
  call.arguments_json += '}';
  return call;
}

bool PythonCallScanner::StepName(std::string_view text) {
  while (at_ < text.size() && IsCallNameByte(text[at_])) ++at_;
  if (at_ > kMaxCallNameBytes) {
    phase_ = Phase::kNone;
    return true;
  }
  if (at_ == text.size()) return false;
  phase_ = text[at_] == '(' ? Phase::kArguments : Phase::kNone;
  return true;
}

// Up to a string, or the last bracket.
bool PythonCallScanner::StepArguments(std::string_view text) {
  for (; at_ < text.size(); ++at_) {
    const char c = text[at_];
    if (c == '"' || c == '\'') {
      // Two of them are an empty string, or the beginning of three.
      if (at_ + 1 == text.size()) return false;
      const bool two = text[at_ + 1] == c;
      if (two && at_ + 2 == text.size()) return false;
      triple_ = two && text[at_ + 2] == c;
      if (two && !triple_) {
        ++at_;
        continue;
      }
      quote_ = c;
      at_ += triple_ ? 3 : 1;
      phase_ = Phase::kString;
      return true;
    }
    if (c == '(' || c == '[' || c == '{') ++depth_;
    if (c == ')' || c == ']' || c == '}') --depth_;
    if (depth_ > 0 && depth_ <= kMaxCallDepth) continue;
    ++at_;
    phase_ = depth_ == 0 ? Phase::kDone : Phase::kNone;
    return true;
  }
  return false;
}

bool PythonCallScanner::StepString(std::string_view text) {
  for (; at_ < text.size(); ++at_) {
    const char c = text[at_];
    if (escaped_) {
      escaped_ = false;
      continue;
    }
    if (c == '\n' && !triple_) {
      phase_ = Phase::kNone;
      return true;
    }
    escaped_ = c == '\\';
    if (c != quote_) continue;
    const std::string_view rest = text.substr(at_, triple_ ? 3 : 1);
    const bool ends = rest.find_first_not_of(quote_) == std::string_view::npos;
    if (!ends) continue;
    if (triple_ && rest.size() < 3) return false;
    at_ += rest.size();
    phase_ = Phase::kArguments;
    return true;
  }
  return false;
}

bool PythonCallScanner::Step(std::string_view text) {
  switch (phase_) {
    case Phase::kName:
      return StepName(text);
    case Phase::kArguments:
      return StepArguments(text);
    case Phase::kString:
      return StepString(text);
    case Phase::kDone:
    case Phase::kNone:
      return false;
  }
  CHECK(false, "phase={}", static_cast<int>(phase_));
}

ScannedCall PythonCallScanner::Scan(std::string_view text) {
  while (Step(text)) {
  }
  if (phase_ == Phase::kDone) {
    std::optional<ToolCall> call = PythonCallOf(text.substr(0, at_));
    if (call) {
      return {.state = ScannedCall::State::kCall,
              .end = at_,
              .call = *std::move(call)};
    }
    phase_ = Phase::kNone;
  }
  if (phase_ != Phase::kNone) return {};
  return {.state = ScannedCall::State::kNone, .end = at_};
}

}  // namespace winnow
