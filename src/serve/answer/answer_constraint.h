// AnswerConstraint: a grammar's matcher as the engine's TokenConstraint.
#ifndef WINNOW_SERVE_ANSWER_ANSWER_CONSTRAINT_H_
#define WINNOW_SERVE_ANSWER_ANSWER_CONSTRAINT_H_

#include <optional>
#include <utility>

#include "engine/request/token_constraint.h"
#include "text/grammar/grammar.h"

namespace winnow {

class AnswerConstraint : public TokenConstraint {
 public:
  explicit AnswerConstraint(GrammarMatcher matcher)
      : matcher_(std::move(matcher)) {}

  Status Mask(std::span<uint32_t> words) override;
  void Accept(int32_t token_id) override;
  bool complete() const override { return !failure_ && matcher_.complete(); }

 private:
  GrammarMatcher matcher_;
  std::optional<Error> failure_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_ANSWER_CONSTRAINT_H_
