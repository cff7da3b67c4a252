// CompletionStyle: answers in OpenAI's form of completions and chats.
#ifndef WINNOW_SERVE_ANSWER_COMPLETION_JSON_H_
#define WINNOW_SERVE_ANSWER_COMPLETION_JSON_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "serve/answer/answer_style.h"

namespace winnow {

// Where a stream reports usage.
enum class StreamUsage : uint8_t {
  kNone,
  kAtEnd,   // of all answers, in an event of its own
  kInEach,  // at the end, and in each event the usage of its answer so far
};

// The names of tokens in log probabilities: their text, or vLLM's "token_id:7".
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
  // An event of one answer, with that answer's usage so far.
  std::string Event(nlohmann::ordered_json event, nlohmann::ordered_json choice,
                    const AnswerUsage& usage) const;

  const AnswerIdentity identity_;
  const StreamUsage usage_;
  const TokenNames names_;
};

// Tokens with their log probabilities, in the form of chats and responses. A
// token that is left out of the text is named by its own spelling.
nlohmann::ordered_json TokensJson(const std::vector<ShownToken>& tokens,
                                  TokenNames names = TokenNames::kTexts);

// {"error": {...}}.
std::string ErrorJson(const ApiError& error);

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_COMPLETION_JSON_H_
