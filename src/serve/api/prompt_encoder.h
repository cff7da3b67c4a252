// PromptEncoder: turns a request into the tokens that a model reads.
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

// The field that holds the prompt.
std::string PromptFieldOf(Endpoint endpoint);

struct PromptLimits {
  int max_model_len = 0;           // tokens
  int64_t max_encoding_bytes = 0;  // of a request's texts
  bool splits_thoughts = true;     // if the template shows the tags of thoughts
};

// Examines a chat's template once and is constant afterwards. Any thread; texts
// are encoded on the calling thread.
class PromptEncoder {
 public:
  using Prompts = std::vector<std::vector<int32_t>>;  // token ids

  // REQUIRES: tokenizer and template outlive this.
  PromptEncoder(const Tokenizer& tokenizer,
                const std::optional<ChatTemplate>& chat_template,
                PromptLimits limits);

  // The texts to encode; none if the request has tokens. Fails if a chat has no
  // template, if the template refuses it, or if it has too many bytes.
  Result<std::vector<std::string>> Texts(
      const CompletionRequest& request) const;
  // The error if the texts must exceed the model's context, judged by their
  // bytes alone.
  std::optional<ApiError> CheckBytes(
      const CompletionRequest& request,
      const std::vector<std::string>& texts) const;
  // Also fails once `is_left` is set.
  Result<Prompts> Encode(const CompletionRequest& request,
                         const std::vector<std::string>& texts,
                         const std::atomic<bool>& is_left) const;
  // Texts and Encode in one call.
  Result<Prompts> Encode(const CompletionRequest& request,
                         const std::atomic<bool>& is_left) const;
  // The text that each token adds, special tokens shown. Joined they are the
  // whole text.
  Result<std::vector<std::string>> Pieces(
      const std::vector<int32_t>& tokens) const;

  // The splitter for its answers' thoughts; none if they are not separated.
  std::optional<ThoughtSplitter> Thoughts(
      const CompletionRequest& request,
      const std::vector<std::string>& texts) const;
  // Special tokens that calls and thoughts in its answers may contain; none if
  // all are shown anyway.
  std::vector<int32_t> MarkerIds(const CompletionRequest& request) const;

  // Fields of the request without effect, fields about thoughts included, and
  // turns that the template never writes.
  std::vector<std::string> IgnoredFields(
      const CompletionRequest& request) const;

  const Tokenizer& tokenizer() const { return tokenizer_; }
  // The model's form of tool calls; none: it writes none.
  const std::optional<ToolCallFormat>& call_format() const {
    return call_format_;
  }
  const ThoughtStyle& thought_style() const { return thought_style_; }

 private:
  Result<std::string> Render(const CompletionRequest& request) const;
  // True if its answers may begin with thoughts that are separated. False with
  // a grammar, which begins with the answer.
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
