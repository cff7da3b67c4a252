// ThoughtSplitter: separates a model's thoughts, between <think> and </think>,
// from its answer.
#ifndef WINNOW_TEXT_TOOLS_THOUGHTS_H_
#define WINNOW_TEXT_TOOLS_THOUGHTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace winnow {

inline constexpr std::string_view kThoughtTag = "<think>";
inline constexpr std::string_view kThoughtEndTag = "</think>";

// How a model thinks, read from the source of its chat template.
struct ThoughtStyle {
  bool has_tags = false;      // both tags occur
  bool reads_effort = false;  // reads the variable "reasoning_effort"
  // The variable that switches thinking; empty if there is none.
  std::string_view switch_name = {};
};
ThoughtStyle ThoughtStyleOf(std::string_view source);

// True if a text ends behind an opening tag, apart from white space.
bool EndsInThoughtTag(std::string_view text);
// True if the last tag in a text opens a thought.
bool LeavesThoughtOpen(std::string_view text);

// A piece of an answer.
struct ThoughtPiece {
  bool is_thought = false;
  std::string text = {};
};

// Takes an answer's text as it comes and returns what is certain: thoughts, and
// the text behind them. A thought stands at the answer's beginning, and white
// space around it is dropped. A tag elsewhere is text. A tag is never returned
// in part. The joined result does not depend on the pieces in which the text
// comes.
//
// Owns the held text; one thread at a time. A byte costs one step.
class ThoughtSplitter {
 public:
  // `open`: true if the prompt has begun the thought.
  explicit ThoughtSplitter(bool open) : open_(open) {}

  std::vector<ThoughtPiece> Push(std::string_view piece);
  // Ends the text and returns the rest. No Push may follow.
  std::vector<ThoughtPiece> Finish();

  // True if the next text belongs to a thought, as far as is known.
  bool thinks() const {
    return state_ == State::kThought || (state_ == State::kBegin && open_);
  }

 private:
  enum class State : uint8_t {
    kBegin,    // an opening tag may come
    kThought,  // before the end tag
    kBehind,   // behind the end tag, before the answer's first byte
    kAnswer,
  };

  // One step on the held text; false if more text is needed.
  bool Step();
  bool StepBegin();
  bool StepThought();
  bool StepBehind();
  // Moves white space at the front of held_ to space_.
  void TakeSpace();
  void Give(bool is_thought, std::string text);
  void GiveThought(std::string_view text);

  const bool open_;
  State state_ = State::kBegin;
  std::string held_;    // not read yet, or perhaps part of a tag
  std::string space_;   // white space before held_, which may be dropped
  bool begun_ = false;  // part of the thought has been returned
  std::vector<ThoughtPiece> pieces_;  // to be returned
};

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_THOUGHTS_H_
