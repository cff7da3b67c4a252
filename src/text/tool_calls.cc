#include "text/tool_calls.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kTag = "<tool_call>";
constexpr std::string_view kEndTag = "</tool_call>";
constexpr std::string_view kListMarker = "[TOOL_CALLS]";
constexpr std::string_view kCallId = "[CALL_ID]";
constexpr std::string_view kArguments = "[ARGS]";
constexpr std::string_view kTags[] = {kTag, kEndTag};
constexpr std::string_view kMarkers[] = {kListMarker, kCallId, kArguments};

constexpr size_t kMaxNameBytes = 128;
// What nests deeper is no call, and is not parsed.
constexpr int kMaxDepth = 64;

bool IsSpace(char c) { return kSpace.find(c) != std::string_view::npos; }

bool IsNameByte(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return letter || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

std::string_view MarkerOf(ToolCallFormat format) {
  return format == ToolCallFormat::kMarked ? kListMarker : kTag;
}

// An object's arguments as text; none where they are no object. Some models
// write the object into a string.
std::optional<std::string> ArgumentsOf(const Json& call) {
  for (const char* name : {"arguments", "parameters"}) {
    const auto found = call.find(name);
    if (found == call.end() || found->is_null()) continue;
    Json value = *found;
    if (value.is_string()) {
      value = Json::parse(value.get<std::string>(), nullptr,
                          /*allow_exceptions=*/false);
    }
    if (!value.is_object()) return std::nullopt;
    return value.dump();
  }
  return "{}";
}

std::optional<ToolCall> CallOf(const Json& value) {
  if (!value.is_object()) return std::nullopt;
  const Json name = value.value("name", Json());
  const std::optional<std::string> arguments = ArgumentsOf(value);
  if (!name.is_string() || name == "" || !arguments) return std::nullopt;
  return ToolCall{name.get<std::string>(), *arguments};
}

}  // namespace

std::optional<ToolCallFormat> ToolCallFormatOf(std::string_view source) {
  const auto has = [source](std::string_view text) {
    return source.find(text) != std::string_view::npos;
  };
  if (!has("tools")) return std::nullopt;
  if (has(kListMarker)) return ToolCallFormat::kMarked;
  // The tag is also one of forms that are not JSON.
  if (has(kTag)) {
    if (has("<function=")) return std::nullopt;
    return ToolCallFormat::kTagged;
  }
  if (has("\"name\":") && has("\"parameters\":")) {
    return ToolCallFormat::kBareObject;
  }
  return std::nullopt;
}

std::span<const std::string_view> MarkersOf(ToolCallFormat format) {
  switch (format) {
    case ToolCallFormat::kTagged:
      return kTags;
    case ToolCallFormat::kMarked:
      return kMarkers;
    case ToolCallFormat::kBareObject:
      return {};
  }
  CHECK(false, "format={}", static_cast<int>(format));
}

ToolCallParser::ToolCallParser(ToolCallFormat format,
                               std::vector<std::string> names)
    : format_(format),
      names_(std::move(names)),
      state_(format == ToolCallFormat::kBareObject ? State::kBegin
                                                   : State::kText) {}

size_t ToolCallParser::SkipSpace(size_t from) const {
  while (from < held_.size() && IsSpace(held_[from])) ++from;
  return from;
}

bool ToolCallParser::Has(std::string_view word, size_t from) const {
  return std::string_view(held_).substr(from).starts_with(word);
}

bool ToolCallParser::MayHave(std::string_view word, size_t from) const {
  const std::string_view rest = std::string_view(held_).substr(from);
  return rest.starts_with(word) || word.starts_with(rest);
}

void ToolCallParser::GiveText(std::string_view text) {
  if (text.empty()) return;
  if (parts_.empty() || parts_.back().call) parts_.emplace_back();
  parts_.back().text += text;
}

void ToolCallParser::GiveUp() {
  GiveText(std::string_view(held_).substr(0, at_));
  held_.erase(0, at_);
  at_ = 0;
  name_.clear();
  state_ =
      format_ == ToolCallFormat::kBareObject ? State::kAnswer : State::kText;
}

// What may be the beginning of a marker is held, and white space before it.
bool ToolCallParser::StepText() {
  const std::string_view marker = MarkerOf(format_);
  const size_t found = held_.find(marker);
  size_t end = found;
  if (found == std::string::npos) {
    size_t num_open = std::min(marker.size() - 1, held_.size());
    while (!held_.ends_with(marker.substr(0, num_open))) --num_open;
    end = held_.size() - num_open;
  }
  while (end > 0 && IsSpace(held_[end - 1])) --end;
  GiveText(std::string_view(held_).substr(0, end));
  held_.erase(0, end);
  if (found == std::string::npos) return false;
  at_ = found - end + marker.size();
  state_ = State::kBegin;
  return true;
}

bool ToolCallParser::StepBegin() {
  at_ = SkipSpace(at_);
  if (at_ == held_.size()) return false;
  const char first = held_[at_];
  const bool marked = format_ == ToolCallFormat::kMarked;
  if (first == '{' || (marked && first == '[')) {
    state_ = State::kValue;
  } else if (marked && IsNameByte(first)) {
    state_ = State::kName;
  } else {
    GiveUp();
    return true;
  }
  begin_ = at_;
  depth_ = 0;
  return true;
}

// NAME, perhaps [CALL_ID] and one, perhaps [ARGS], then an object.
bool ToolCallParser::StepName() {
  const auto skip_name = [this](size_t from) {
    while (from < held_.size() && IsNameByte(held_[from])) ++from;
    return from;
  };
  at_ = skip_name(at_);
  size_t next = SkipSpace(at_);
  if (Has(kCallId, next)) next = skip_name(next + kCallId.size());
  if (Has(kArguments, next)) next = SkipSpace(next + kArguments.size());
  const bool too_long = next - begin_ > 2 * kMaxNameBytes;
  if (!too_long && (MayHave(kCallId, next) || MayHave(kArguments, next))) {
    return false;
  }
  if (too_long || held_[next] != '{') {
    at_ = next;
    GiveUp();
    return true;
  }
  name_ = held_.substr(begin_, at_ - begin_);
  begin_ = at_ = next;
  state_ = State::kValue;
  return true;
}

bool ToolCallParser::TakeCalls(std::string_view text) {
  const Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<std::optional<ToolCall>> calls;
  if (!name_.empty()) {
    if (value.is_object()) calls.push_back(ToolCall{name_, value.dump()});
  } else if (value.is_array()) {
    for (const Json& each : value) calls.push_back(CallOf(each));
  } else {
    calls.push_back(CallOf(value));
  }
  const bool any_name = format_ != ToolCallFormat::kBareObject;
  for (const std::optional<ToolCall>& call : calls) {
    if (!call) return false;
    if (!any_name && std::ranges::find(names_, call->name) == names_.end()) {
      return false;
    }
  }
  for (std::optional<ToolCall>& call : calls) {
    parts_.push_back({.call = std::move(call)});
  }
  any_call_ = any_call_ || !calls.empty();
  return !calls.empty();
}

bool ToolCallParser::StepValue() {
  for (; at_ < held_.size(); ++at_) {
    const char c = held_[at_];
    if (in_string_) {
      const bool ends = c == '"' && !escaped_;
      escaped_ = c == '\\' && !escaped_;
      in_string_ = !ends;
      continue;
    }
    if (c == '"') in_string_ = true;
    if (c == '{' || c == '[') ++depth_;
    if (c == '}' || c == ']') --depth_;
    if (depth_ > 0 && depth_ <= kMaxDepth) continue;
    ++at_;
    const std::string_view value(held_.data() + begin_, at_ - begin_);
    if (depth_ > 0 || !TakeCalls(value)) {
      depth_ = 0;
      GiveUp();
      return true;
    }
    held_.erase(0, at_);
    at_ = 0;
    name_.clear();
    state_ = State::kClose;
    return true;
  }
  return false;
}

bool ToolCallParser::StepClose() {
  size_t next = SkipSpace(0);
  if (next == held_.size()) return false;
  if (format_ == ToolCallFormat::kBareObject) {
    if (held_[next] == ';') next = SkipSpace(next + 1);
    if (next == held_.size()) return false;
    begin_ = at_ = next;
    state_ = held_[next] == '{' ? State::kValue : State::kAnswer;
    return true;
  }
  if (format_ == ToolCallFormat::kTagged) {
    if (Has(kEndTag, next)) {
      held_.erase(0, next + kEndTag.size());
    } else if (MayHave(kEndTag, next)) {
      return false;
    }
  }
  state_ = State::kText;
  return true;
}

bool ToolCallParser::Step() {
  switch (state_) {
    case State::kText:
      return StepText();
    case State::kBegin:
      return StepBegin();
    case State::kName:
      return StepName();
    case State::kValue:
      return StepValue();
    case State::kClose:
      return StepClose();
    case State::kAnswer:
      GiveText(std::exchange(held_, {}));
      return false;
  }
  CHECK(false, "state={}", static_cast<int>(state_));
}

std::vector<AnswerPart> ToolCallParser::Push(std::string_view piece) {
  held_ += piece;
  while (Step()) {
  }
  return std::exchange(parts_, {});
}

std::vector<AnswerPart> ToolCallParser::Finish() {
  if (!any_call_ || SkipSpace(0) < held_.size()) GiveText(held_);
  held_.clear();
  return std::exchange(parts_, {});
}

}  // namespace winnow
