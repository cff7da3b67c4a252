#include "text/tools/tool_calls.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "text/tools/parameter_calls.h"
#include "text/tools/python_calls.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kTagOpenings[] = {kCallTag};
constexpr std::string_view kListOpenings[] = {kListMarker};
// Models leave the first out.
constexpr std::string_view kParameterOpenings[] = {kCallTag, kFunctionTag};
constexpr std::string_view kPythonOpenings[] = {kPythonMarker};

// What begins a call between text, in each form that has such a mark.
std::span<const std::string_view> OpeningsOf(ToolCallFormat format) {
  switch (format) {
    case ToolCallFormat::kTagged:
      return kTagOpenings;
    case ToolCallFormat::kMarked:
      return kListOpenings;
    case ToolCallFormat::kParameterTags:
      return kParameterOpenings;
    case ToolCallFormat::kPythonCalls:
      return kPythonOpenings;
    case ToolCallFormat::kBareObject:
      return {};
  }
  CHECK(false, "format={}", static_cast<int>(format));
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

ToolCallParser::ToolCallParser(ToolCallFormat format,
                               std::shared_ptr<const ParameterTypes> tools,
                               CallPlaces places)
    : format_(format),
      tools_(std::move(tools)),
      state_(format == ToolCallFormat::kBareObject ? State::kBegin
             : places == CallPlaces::kAlone        ? State::kFirst
                                                   : State::kText) {
  CHECK(tools_ != nullptr);
}

bool ToolCallParser::IsKnown(std::string_view name) const {
  return tools_->HasTool(name);
}

size_t ToolCallParser::SkipSpace(size_t from) const {
  while (from < held_.size() && IsCallSpace(held_[from])) ++from;
  return from;
}

bool ToolCallParser::Has(std::string_view word, size_t from) const {
  return std::string_view(held_).substr(from).starts_with(word);
}

bool ToolCallParser::MayHave(std::string_view word, size_t from) const {
  return MayHaveAt(held_, from, word);
}

void ToolCallParser::GiveText(std::string_view text) {
  if (text.empty()) return;
  if (parts_.empty() || parts_.back().call) parts_.emplace_back();
  parts_.back().text += text;
}

void ToolCallParser::GiveUp() {
  GiveText(std::string_view(held_).substr(0, at_));
  const bool bare = format_ == ToolCallFormat::kBareObject;
  TakeHeld(at_, bare ? State::kAnswer : State::kText);
}

void ToolCallParser::TakeHeld(size_t end, State next) {
  held_.erase(0, end);
  at_ = 0;
  name_.clear();
  scanner_.reset();
  state_ = next;
}

ToolCallParser::Marked ToolCallParser::FindMarker() const {
  Marked first = {.at = held_.size()};
  for (const std::string_view marker : OpeningsOf(format_)) {
    const size_t found = held_.find(marker, at_);
    if (found < first.at) first = {.at = found, .num_bytes = marker.size()};
  }
  if (first.num_bytes > 0) return first;
  for (const std::string_view marker : OpeningsOf(format_)) {
    size_t num_open = std::min(marker.size() - 1, held_.size() - at_);
    while (!held_.ends_with(marker.substr(0, num_open))) --num_open;
    first.at = std::min(first.at, held_.size() - num_open);
  }
  return first;
}

// What may be the beginning of a marker is held, and white space before it: up
// to at_ there is nothing else.
bool ToolCallParser::StepText() {
  const Marked marked = FindMarker();
  size_t end = marked.at;
  while (end > at_ && IsCallSpace(held_[end - 1])) --end;
  if (end == at_) end = 0;
  GiveText(std::string_view(held_).substr(0, end));
  held_.erase(0, end);
  at_ = marked.at - end;
  if (marked.num_bytes == 0) return false;
  fence_ = Fence::kNone;
  marked_ = !Has(kFunctionTag, at_);
  if (!marked_) {
    BeginScan(at_);
    return true;
  }
  at_ += marked.num_bytes;
  state_ = State::kBegin;
  return true;
}

bool ToolCallParser::StepFirst() {
  const size_t begin = SkipSpace(0);
  bool may_be_call = begin == held_.size();
  for (const std::string_view marker : OpeningsOf(format_)) {
    if (Has(marker, begin)) {
      state_ = State::kText;
      return true;
    }
    may_be_call = may_be_call || MayHave(marker, begin);
  }
  if (may_be_call) return false;
  state_ = State::kAnswer;
  return true;
}

bool ToolCallParser::StepBegin() {
  at_ = SkipSpace(at_);
  if (at_ == held_.size()) return false;
  const char first = held_[at_];
  const bool json = format_ != ToolCallFormat::kParameterTags &&
                    format_ != ToolCallFormat::kPythonCalls;
  const bool marked = format_ == ToolCallFormat::kMarked;
  if (json && (first == '{' || (marked && first == '['))) {
    state_ = State::kValue;
  } else if (marked && IsCallNameByte(first)) {
    state_ = State::kName;
  } else if (format_ == ToolCallFormat::kParameterTags &&
             MayHave(kFunctionTag, at_)) {
    if (!Has(kFunctionTag, at_)) return false;
    BeginScan(at_);
  } else if (format_ == ToolCallFormat::kPythonCalls) {
    return StepPythonBegin();
  } else {
    GiveUp();
    return true;
  }
  begin_ = at_;
  depth_ = 0;
  return true;
}

// Perhaps a fence and its language, then a name.
bool ToolCallParser::StepPythonBegin() {
  if (fence_ == Fence::kNone && MayHave(kFence, at_)) {
    const std::string_view rest = std::string_view(held_).substr(at_);
    if (rest.size() <= kFence.size()) return false;
    for (const std::string_view opening : {kPythonFence, kFence}) {
      if (rest.starts_with(opening)) {
        fence_ = Fence::kOpen;
        at_ += opening.size();
        return true;
      }
      if (opening.starts_with(rest)) return false;
    }
  }
  if (IsCallNameByte(held_[at_])) {
    BeginScan(at_);
  } else {
    GiveUp();
  }
  return true;
}

// NAME, perhaps [CALL_ID] and one, perhaps [ARGS], then an object.
bool ToolCallParser::StepName() {
  const auto skip_name = [this](size_t from) {
    while (from < held_.size() && IsCallNameByte(held_[from])) ++from;
    return from;
  };
  at_ = skip_name(at_);
  size_t next = SkipSpace(at_);
  if (Has(kCallIdMarker, next)) next = skip_name(next + kCallIdMarker.size());
  if (Has(kArgumentsMarker, next)) {
    next = SkipSpace(next + kArgumentsMarker.size());
  }
  const bool too_long = next - begin_ > 2 * kMaxCallNameBytes;
  if (!too_long &&
      (MayHave(kCallIdMarker, next) || MayHave(kArgumentsMarker, next))) {
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
    if (!call || (!any_name && !IsKnown(call->name))) return false;
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
    if (depth_ > 0 && depth_ <= kMaxCallDepth) continue;
    ++at_;
    const std::string_view value(held_.data() + begin_, at_ - begin_);
    if (depth_ > 0 || !TakeCalls(value)) {
      depth_ = 0;
      GiveUp();
      return true;
    }
    TakeHeld(at_, State::kClose);
    return true;
  }
  return false;
}

void ToolCallParser::BeginScan(size_t begin) {
  begin_ = at_ = begin;
  if (format_ == ToolCallFormat::kPythonCalls) {
    scanner_ = std::make_unique<PythonCallScanner>();
  } else {
    scanner_ = std::make_unique<ParameterCallScanner>(tools_);
  }
  state_ = State::kScan;
}

bool ToolCallParser::StepScan() {
  ScannedCall scanned = scanner_->Scan(std::string_view(held_).substr(begin_));
  if (scanned.state == ScannedCall::State::kOpen) return false;
  at_ = begin_ + scanned.end;
  if (scanned.state == ScannedCall::State::kNone ||
      (!marked_ && !IsKnown(scanned.call.name))) {
    GiveUp();
    return true;
  }
  parts_.push_back({.call = std::move(scanned.call)});
  any_call_ = true;
  TakeHeld(at_, State::kClose);
  return true;
}

bool ToolCallParser::StepBareObjectClose() {
  size_t next = at_;
  if (held_[next] == ';') next = SkipSpace(next + 1);
  if (next == held_.size()) return false;
  begin_ = at_ = next;
  state_ = held_[at_] == '{' ? State::kValue : State::kAnswer;
  return true;
}

// Another call, the fence, the end: each may be missing.
bool ToolCallParser::StepPythonClose() {
  if (Has(kPythonEndMarker, at_)) {
    TakeHeld(at_ + kPythonEndMarker.size(), State::kText);
  } else if (fence_ == Fence::kOpen && Has(kFence, at_)) {
    fence_ = Fence::kClosed;
    TakeHeld(at_ + kFence.size(), State::kClose);
  } else if (fence_ != Fence::kClosed && IsCallNameByte(held_[at_])) {
    BeginScan(at_);
  } else if (MayHave(kPythonEndMarker, at_) ||
             (fence_ == Fence::kOpen && MayHave(kFence, at_))) {
    return false;
  } else {
    TakeHeld(0, State::kText);
  }
  return true;
}

bool ToolCallParser::StepClose() {
  at_ = SkipSpace(at_);
  if (at_ == held_.size()) return false;
  if (format_ == ToolCallFormat::kBareObject) return StepBareObjectClose();
  if (format_ == ToolCallFormat::kPythonCalls) return StepPythonClose();
  if (format_ != ToolCallFormat::kMarked) {
    if (Has(kCallEndTag, at_)) {
      held_.erase(0, at_ + kCallEndTag.size());
    } else if (MayHave(kCallEndTag, at_)) {
      return false;
    }
  }
  TakeHeld(0, State::kText);
  return true;
}

bool ToolCallParser::Step() {
  switch (state_) {
    case State::kFirst:
      return StepFirst();
    case State::kText:
      return StepText();
    case State::kBegin:
      return StepBegin();
    case State::kName:
      return StepName();
    case State::kValue:
      return StepValue();
    case State::kScan:
      return StepScan();
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
