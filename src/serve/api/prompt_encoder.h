// PromptEncoder: from what a client asks to the tokens that a model reads.
#ifndef WINNOW_SERVE_API_PROMPT_ENCODER_H_
#define WINNOW_SERVE_API_PROMPT_ENCODER_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/api/untold_turns.h"
#include "serve/request/api_error.h"
#include "serve/request/completion_request.h"
#include "text/chat_template.h"
#include "text/tokenize/tokenizer.h"
#include "text/tools/thoughts.h"
#include "text/tools/tool_call_format.h"

namespace winnow {

// The field that a prompt is made of.
std::string PromptFieldOf(Endpoint endpoint);

struct PromptLimits {
  int max_model_len = 0;           // tokens
  int64_t max_encoding_bytes = 0;  // of a request's texts
  bool splits_thoughts = true;     // where the template shows the tags of some
};

// What it is told about a chat's template is found out once. Changes nothing
// afterwards; any thread, and the text is encoded on that one.
class PromptEncoder {
 public:
  using Prompts = std::vector<std::vector<int32_t>>;  // token ids

  // REQUIRES: tokenizer and template outlive this.
  PromptEncoder(const Tokenizer& tokenizer,
                const std::optional<ChatTemplate>& chat_template,
                PromptLimits limits);

  // What is to be encoded; none where it came as tokens. Fails where a chat has
  // no template, or one that does not take it, and where it is too many bytes.
  Result<std::vector<std::string>> Texts(
      const CompletionRequest& request) const;
  // That the texts may be no longer than the model's context, by their bytes
  // alone.
  std::optional<ApiError> CheckBytes(
      const CompletionRequest& request,
      const std::vector<std::string>& texts) const;
  // Fails as well once nobody waits for it.
  Result<Prompts> Encode(const CompletionRequest& request,
                         const std::vector<std::string>& texts,
                         const std::atomic<bool>& is_left) const;
  // Its texts and their tokens.
  Result<Prompts> Encode(const CompletionRequest& request,
                         const std::atomic<bool>& is_left) const;
  // What each token adds to the text, special ones shown: together, all of it.
  Result<std::vector<std::string>> Pieces(
      const std::vector<int32_t>& tokens) const;

  // What tells its answers' thoughts apart; none where nothing does.
  std::optional<ThoughtSplitter> Thoughts(
      const CompletionRequest& request,
      const std::vector<std::string>& texts) const;
  // Special tokens that calls and thoughts in its answers may have; none where
  // all are shown anyway.
  std::vector<int32_t> MarkerIds(const CompletionRequest& request) const;

  // Its fields that change nothing, also of those about thoughts, and turns
  // that the template never writes.
  std::vector<std::string> IgnoredFields(
      const CompletionRequest& request) const;

  const Tokenizer& tokenizer() const { return tokenizer_; }
  // As the model writes calls of tools; none: it does not.
  const std::optional<ToolCallFormat>& call_format() const {
    return call_format_;
  }
  const ThoughtStyle& thought_style() const { return thought_style_; }

 private:
  Result<std::string> Render(const CompletionRequest& request) const;
  // Whether its answers may begin with thoughts that are told apart: not where
  // a grammar holds them, which begins with the answer.
  bool SplitsThoughts(const CompletionRequest& request) const;

  const Tokenizer& tokenizer_;
  const std::optional<ChatTemplate>& chat_template_;
  const PromptLimits limits_;
  const std::optional<ToolCallFormat> call_format_;
  const ThoughtStyle thought_style_;
  const UntoldTurns untold_;  // by the template
  const std::vector<int32_t> call_marker_ids_, thought_marker_ids_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_API_PROMPT_ENCODER_H_
