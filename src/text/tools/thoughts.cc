#include "text/tools/thoughts.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/tools/call_scanner.h"

namespace winnow {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

// How many bytes at the end of `text` may begin the end tag.
size_t NumBytesOfTag(std::string_view text) {
  size_t num_bytes = std::min(text.size(), kThoughtEndTag.size() - 1);
  while (!kThoughtEndTag.starts_with(text.substr(text.size() - num_bytes))) {
    --num_bytes;
  }
  return num_bytes;
}

}  // namespace

ThoughtStyle ThoughtStyleOf(std::string_view source) {
  const auto has = [source](std::string_view text) {
    return source.find(text) != std::string_view::npos;
  };
  ThoughtStyle style = {.has_tags = has(kThoughtTag) && has(kThoughtEndTag),
                        .reads_effort = has("reasoning_effort")};
  if (has("enable_thinking")) {
    style.switch_name = "enable_thinking";
  } else if (has("if thinking") || has("not thinking") || has("thinking is")) {
    // The word alone may also stand in what a template says.
    style.switch_name = "thinking";
  }
  return style;
}

bool EndsInThoughtTag(std::string_view text) {
  const size_t last = text.find_last_not_of(kSpace);
  return last != std::string_view::npos &&
         text.substr(0, last + 1).ends_with(kThoughtTag);
}

bool LeavesThoughtOpen(std::string_view text) {
  const size_t begin = text.rfind(kThoughtTag);
  if (begin == std::string_view::npos) return false;
  return text.find(kThoughtEndTag, begin) == std::string_view::npos;
}

void ThoughtSplitter::TakeSpace() {
  const size_t end = std::min(held_.find_first_not_of(kSpace), held_.size());
  space_ += held_.substr(0, end);
  held_.erase(0, end);
}

void ThoughtSplitter::Give(bool is_thought, std::string text) {
  if (text.empty()) return;
  pieces_.push_back({.is_thought = is_thought, .text = std::move(text)});
}

void ThoughtSplitter::GiveThought(std::string_view text) {
  const size_t first = begun_ ? 0 : text.find_first_not_of(kSpace);
  const size_t last = text.find_last_not_of(kSpace);
  if (last == std::string_view::npos) {
    if (begun_) space_ += text;
    return;
  }
  begun_ = true;
  Give(/*is_thought=*/true,
       std::exchange(space_, std::string(text.substr(last + 1))) +
           std::string(text.substr(first, last + 1 - first)));
}

bool ThoughtSplitter::StepBegin() {
  TakeSpace();
  if (MayHaveAt(held_, 0, kThoughtTag)) {
    if (held_.size() < kThoughtTag.size()) return false;
    held_.erase(0, kThoughtTag.size());
    space_.clear();
    state_ = State::kThought;
    return true;
  }
  std::string space = std::exchange(space_, {});
  if (!open_) held_.insert(0, space);
  state_ = open_ ? State::kThought : State::kAnswer;
  return true;
}

bool ThoughtSplitter::StepThought() {
  const size_t end = held_.find(kThoughtEndTag);
  if (end == std::string::npos) {
    const size_t num_certain = held_.size() - NumBytesOfTag(held_);
    GiveThought(std::string_view(held_).substr(0, num_certain));
    held_.erase(0, num_certain);
    return false;
  }
  GiveThought(std::string_view(held_).substr(0, end));
  held_.erase(0, end + kThoughtEndTag.size());
  space_.clear();
  state_ = State::kBehind;
  return true;
}

bool ThoughtSplitter::StepBehind() {
  TakeSpace();
  space_.clear();
  if (held_.empty()) return false;
  state_ = State::kAnswer;
  return true;
}

bool ThoughtSplitter::Step() {
  switch (state_) {
    case State::kBegin:
      return StepBegin();
    case State::kThought:
      return StepThought();
    case State::kBehind:
      return StepBehind();
    case State::kAnswer:
      Give(/*is_thought=*/false, std::exchange(held_, {}));
      return false;
  }
  CHECK(false, "state={}", static_cast<int>(state_));
}

std::vector<ThoughtPiece> ThoughtSplitter::Push(std::string_view piece) {
  held_ += piece;
  while (Step()) {
  }
  return std::exchange(pieces_, {});
}

std::vector<ThoughtPiece> ThoughtSplitter::Finish() {
  if (thinks()) {
    GiveThought(held_);
  } else if (state_ == State::kBegin) {
    Give(/*is_thought=*/false, space_ + held_);
  }
  held_.clear();
  space_.clear();
  return std::exchange(pieces_, {});
}

}  // namespace winnow
