// CompletionStyle: answers as OpenAI's clients read completions and chats.
#ifndef WINNOW_SERVE_COMPLETION_JSON_H_
#define WINNOW_SERVE_COMPLETION_JSON_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "serve/answer_style.h"

namespace winnow {

class CompletionStyle : public AnswerStyle {
 public:
  // `include_usage`: in an event of its own at a stream's end.
  CompletionStyle(AnswerIdentity identity, bool include_usage)
      : identity_(std::move(identity)), include_usage_(include_usage) {}

  std::string Whole(const std::vector<ShownChoice>& choices,
                    const AnswerUsage& usage) override;
  std::string Begin(int num_choices, const AnswerUsage& usage) override;
  std::string Piece(const ShownChoice& piece) override;
  std::string End(const AnswerUsage& usage) override;
  std::string Failure(const ApiError& error) override;
  std::string ErrorBody(const ApiError& error) const override;

 private:
  const AnswerIdentity identity_;
  const bool include_usage_;
};

// Tokens with their log probabilities, as chats and responses list them.
nlohmann::ordered_json TokensJson(const std::vector<ShownToken>& tokens);

// {"error": {...}}.
std::string ErrorJson(const ApiError& error);

}  // namespace winnow

#endif  // WINNOW_SERVE_COMPLETION_JSON_H_
