// Thoughts in a generated answer: what a model writes between <think> and
// </think> before it answers.
#ifndef WINNOW_TEXT_TOOLS_THOUGHTS_H_
#define WINNOW_TEXT_TOOLS_THOUGHTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace winnow {

inline constexpr std::string_view kThoughtTag = "<think>";
inline constexpr std::string_view kThoughtEndTag = "</think>";

// How a model thinks, which the source of its chat template shows.
struct ThoughtStyle {
  bool has_tags = false;      // both are there
  bool reads_effort = false;  // the variable "reasoning_effort"
  // The variable that says whether it thinks; empty: there is none.
  std::string_view switch_name = {};
};
ThoughtStyle ThoughtStyleOf(std::string_view source);

// Whether a text ends where a thought has begun: behind its tag, but for white
// space.
bool EndsInThoughtTag(std::string_view text);
// Whether the last tag in a text begins a thought.
bool LeavesThoughtOpen(std::string_view text);

// A piece of an answer.
struct ThoughtPiece {
  bool is_thought = false;
  std::string text = {};
};

// Takes an answer's text as it comes and gives what is certain: thoughts, and
// what is said behind them. A thought stands at the answer's beginning, and
// white space around it is dropped; a tag that stands elsewhere is text. Of no
// tag a part is given. Together the pieces do not depend on those in which the
// text comes.
//
// Owns what it holds back; one thread at a time. A byte costs one step.
class ThoughtSplitter {
 public:
  // `open`: the prompt has begun the thought.
  explicit ThoughtSplitter(bool open) : open_(open) {}

  std::vector<ThoughtPiece> Push(std::string_view piece);
  // No text will come: the rest. Nothing is pushed afterwards.
  std::vector<ThoughtPiece> Finish();

  // What comes next is, as far as is known, a thought's.
  bool thinks() const {
    return state_ == State::kThought || (state_ == State::kBegin && open_);
  }

 private:
  enum class State : uint8_t {
    kBegin,    // the first tag may come
    kThought,  // before the end tag
    kBehind,   // behind it, before the answer's first byte
    kAnswer,
  };

  // One step on what is held; false where more text is needed.
  bool Step();
  bool StepBegin();
  bool StepThought();
  bool StepBehind();
  // White space that begins what is held is kept in space_.
  void TakeSpace();
  void Give(bool is_thought, std::string text);
  void GiveThought(std::string_view text);

  const bool open_;
  State state_ = State::kBegin;
  std::string held_;    // not looked at, or perhaps a tag's part
  std::string space_;   // white space before it, which may be dropped
  bool begun_ = false;  // some of the thought has been given
  std::vector<ThoughtPiece> pieces_;  // to be given
};

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_THOUGHTS_H_
