#include "text/tools/parameter_calls.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/check.h"
#include "text/tools/literal_reader.h"

namespace winnow {
namespace {

// What may follow a value.
constexpr std::array kFollowing = {kParameterTag, kFunctionEndTag, kCallEndTag};

std::string_view WithoutLineEnds(std::string_view value) {
  if (value.starts_with('\n')) value.remove_prefix(1);
  if (value.ends_with('\n')) value.remove_suffix(1);
  return value;
}

size_t SkipSpace(std::string_view text, size_t at) {
  while (at < text.size() && IsCallSpace(text[at])) ++at;
  return at;
}

// A parameter's name is the client's.
bool IsInName(char c, bool of_tool) {
  if (of_tool) return IsCallNameByte(c);
  return c != '<' && c != '\n';
}

}  // namespace

bool ParameterCallScanner::StepName(std::string_view text, std::string& name,
                                    Phase next) {
  const bool of_tool = phase_ == Phase::kName;
  if (at_ < begin_) at_ = begin_;
  for (; at_ < text.size() && text[at_] != '>'; ++at_) {
    if (!IsInName(text[at_], of_tool) || at_ - begin_ >= kMaxCallNameBytes) {
      phase_ = Phase::kNone;
      return true;
    }
  }
  if (at_ == text.size()) return false;
  name = text.substr(begin_, at_ - begin_);
  phase_ = name.empty() ? Phase::kNone : next;
  begin_ = ++at_;
  return true;
}

bool ParameterCallScanner::StepBody(std::string_view text) {
  at_ = SkipSpace(text, at_);
  const std::string_view rest = text.substr(at_);
  if (rest.starts_with(kParameterTag)) {
    begin_ = at_ += kParameterTag.size();
    phase_ = Phase::kKey;
    return true;
  }
  if (rest.starts_with(kFunctionEndTag)) {
    at_ += kFunctionEndTag.size();
    phase_ = Phase::kDone;
    return true;
  }
  if (rest.starts_with(kCallEndTag)) {
    phase_ = Phase::kDone;
    return true;
  }
  const bool open = std::ranges::any_of(
      kFollowing, [&](std::string_view tag) { return tag.starts_with(rest); });
  if (!open) phase_ = Phase::kNone;
  return !open;
}

bool ParameterCallScanner::StepValue(std::string_view text) {
  at_ = std::min(text.find('<', at_), text.size());
  if (at_ == text.size()) return false;
  if (text.substr(at_).starts_with(kParameterEndTag)) {
    end_ = at_;
    at_ += kParameterEndTag.size();
    phase_ = Phase::kAfterValue;
    return true;
  }
  if (MayHaveAt(text, at_, kParameterEndTag)) return false;
  ++at_;
  return true;
}

bool ParameterCallScanner::StepAfterValue(std::string_view text) {
  at_ = SkipSpace(text, at_);
  const auto follows = [&](std::string_view tag) {
    return text.substr(at_).starts_with(tag);
  };
  const auto may_follow = [&](std::string_view tag) {
    return MayHaveAt(text, at_, tag);
  };
  if (std::ranges::any_of(kFollowing, follows)) {
    const std::string_view value = text.substr(begin_, end_ - begin_);
    arguments_.emplace_back(
        key_, types_->JsonOf(name_, key_, WithoutLineEnds(value)));
    phase_ = Phase::kBody;
    return true;
  }
  if (std::ranges::any_of(kFollowing, may_follow)) return false;
  phase_ = Phase::kValue;
  return true;
}

bool ParameterCallScanner::Step(std::string_view text) {
  switch (phase_) {
    case Phase::kName:
      begin_ = kFunctionTag.size();
      return StepName(text, name_, Phase::kBody);
    case Phase::kBody:
      return StepBody(text);
    case Phase::kKey:
      return StepName(text, key_, Phase::kValue);
    case Phase::kValue:
      return StepValue(text);
    case Phase::kAfterValue:
      return StepAfterValue(text);
    case Phase::kDone:
    case Phase::kNone:
      return false;
  }
  CHECK(false, "phase={}", static_cast<int>(phase_));
}

std::string ParameterCallScanner::ArgumentsJson() const {
  std::map<std::string_view, size_t> last;
  for (size_t i = 0; i < arguments_.size(); ++i) last[arguments_[i].first] = i;
  std::string text = "{";
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const auto& [key, value] = arguments_[i];
    if (last[key] != i) continue;
    text += (text.size() > 1 ? "," : "") + QuotedJson(key) + ":" + value;
  }
  return text + "}";
}

ScannedCall ParameterCallScanner::Scan(std::string_view text) {
  CHECK(text.starts_with(kFunctionTag));
  while (Step(text)) {
  }
  if (phase_ == Phase::kNone) {
    return {.state = ScannedCall::State::kNone, .end = at_};
  }
  if (phase_ != Phase::kDone) return {};
  return {.state = ScannedCall::State::kCall,
          .end = at_,
          .call = {name_, ArgumentsJson()}};
}

}  // namespace winnow
