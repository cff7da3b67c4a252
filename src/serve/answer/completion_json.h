// CompletionStyle: answers as OpenAI's clients read completions and chats.
#ifndef WINNOW_SERVE_ANSWER_COMPLETION_JSON_H_
#define WINNOW_SERVE_ANSWER_COMPLETION_JSON_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "serve/answer/answer_style.h"

namespace winnow {

// Where a stream says what was used.
enum class StreamUsage : uint8_t {
  kNone,
  kAtEnd,   // of all answers, in an event of its own
  kInEach,  // there too, and in each event what its answer has used so far
};

// How log probabilities name tokens: by text, or "token_id:7" as vLLM does.
enum class TokenNames : uint8_t { kTexts, kIds };

class CompletionStyle : public AnswerStyle {
 public:
  CompletionStyle(AnswerIdentity identity, StreamUsage usage,
                  TokenNames names = TokenNames::kTexts)
      : identity_(std::move(identity)), usage_(usage), names_(names) {}

  std::string Whole(const std::vector<ShownChoice>& choices,
                    const AnswerUsage& usage) override;
  bool begins_with_cached() const override {
    return usage_ == StreamUsage::kInEach;
  }
  std::string Begin(int num_choices, const AnswerUsage& usage) override;
  std::string Piece(const ShownChoice& piece) override;
  std::string End(const AnswerUsage& usage) override;
  std::string Failure(const ApiError& error) override;
  std::string ErrorBody(const ApiError& error) const override;

 private:
  // An event of one answer, and what that has used so far.
  std::string Event(nlohmann::ordered_json event, nlohmann::ordered_json choice,
                    const AnswerUsage& usage) const;

  const AnswerIdentity identity_;
  const StreamUsage usage_;
  const TokenNames names_;
};

// Tokens with their log probabilities, as chats and responses list them: one
// that is left out of the text by its own.
nlohmann::ordered_json TokensJson(const std::vector<ShownToken>& tokens,
                                  TokenNames names = TokenNames::kTexts);

// {"error": {...}}.
std::string ErrorJson(const ApiError& error);

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_COMPLETION_JSON_H_
