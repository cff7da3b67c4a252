// MessagesStyle: answers in Anthropic's form of /v1/messages.
#ifndef WINNOW_SERVE_ANSWER_MESSAGES_JSON_H_
#define WINNOW_SERVE_ANSWER_MESSAGES_JSON_H_

#include <string>
#include <vector>

#include "serve/answer/answer_style.h"

namespace winnow {

// One answer of blocks: a thought, text or a tool's use. In a stream events
// begin and end each block.
class MessagesStyle : public AnswerStyle {
 public:
  explicit MessagesStyle(AnswerIdentity identity)
      : identity_(std::move(identity)) {}

  // REQUIRES: one choice, here and below.
  std::string Whole(const std::vector<ShownChoice>& choices,
                    const AnswerUsage& usage) override;
  bool begins_with_cached() const override { return true; }
  std::string Begin(int num_choices, const AnswerUsage& usage) override;
  std::string Piece(const ShownChoice& piece) override;
  std::string End(const AnswerUsage& usage) override;
  std::string Failure(const ApiError& error) override;
  std::string ErrorBody(const ApiError& error) const override;

 private:
  std::string BeginBlock(const ShownPart& part);
  std::string EndBlock();

  const AnswerIdentity identity_;
  int num_blocks_ = 0;       // ended blocks
  bool open_ = false;        // a block of text, or a thought
  bool is_thought_ = false;  // for the open block
  std::string finish_reason_;
  std::string stop_;
};

// {"type": "error", "error": {...}}.
std::string MessagesErrorJson(const ApiError& error);

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_MESSAGES_JSON_H_
