#include "serve/api/prompt_encoder.h"

#include <ctime>
#include <span>
#include <string_view>

#include "model/config/json_fields.h"
#include "serve/api/turn_order.h"
#include "text/grammar/json_slices.h"
#include "text/tokenize/detokenizer.h"

namespace winnow {
namespace {

constexpr std::string_view kThoughtMarkers[] = {kThoughtTag, kThoughtEndTag};

std::optional<ToolCallFormat> FormatOf(
    const std::optional<ChatTemplate>& chat_template) {
  if (!chat_template) return std::nullopt;
  return ToolCallFormatOf(chat_template->ToolSource());
}

ThoughtStyle StyleOf(const std::optional<ChatTemplate>& chat_template) {
  if (!chat_template) return {};
  return ThoughtStyleOf(chat_template->ToolSource());
}

std::span<const std::string_view> MarkersOf(
    std::optional<ToolCallFormat> format) {
  if (!format) return {};
  return winnow::MarkersOf(*format);
}

std::vector<int32_t> SpecialMarkers(std::span<const std::string_view> markers,
                                    const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (const std::string_view marker : markers) {
    const std::optional<int32_t> id = tokenizer.IdOf(marker);
    if (id && tokenizer.IsSpecial(*id)) ids.push_back(*id);
  }
  return ids;
}

// Whether an answer to this prompt goes on with a thought.
bool BeginsThought(const CompletionRequest& request, std::string_view prompt) {
  if (!request.continues_message) return EndsInThoughtTag(prompt);
  // What others have said may hold tags.
  return LeavesThoughtOpen(
      MemberOf(ElementsOf(request.messages_json).back(), "content"));
}

// Whoever asks need not know where the server keeps its files:
// "FOLDER/FILE: ..." is "FILE: ...".
std::string WithoutFolder(std::string_view message) {
  const size_t slash = message.substr(0, message.find(": ")).rfind('/');
  return std::string(
      slash == std::string_view::npos ? message : message.substr(slash + 1));
}

}  // namespace

// The field that a prompt is made of.
std::string PromptFieldOf(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kCompletions:
      return "prompt";
    case Endpoint::kChatCompletions:
    case Endpoint::kMessages:
    case Endpoint::kMessageTokens:
      return "messages";
    case Endpoint::kResponses:
      return "input";
  }
  CHECK(false, "endpoint={}", static_cast<int>(endpoint));
}

PromptEncoder::PromptEncoder(const Tokenizer& tokenizer,
                             const std::optional<ChatTemplate>& chat_template,
                             PromptLimits limits)
    : tokenizer_(tokenizer),
      chat_template_(chat_template),
      limits_(limits),
      call_format_(FormatOf(chat_template)),
      thought_style_(StyleOf(chat_template)),
      untold_(chat_template ? UntoldTurns::Of(*chat_template) : UntoldTurns()),
      call_marker_ids_(SpecialMarkers(MarkersOf(call_format_), tokenizer)),
      thought_marker_ids_(SpecialMarkers(kThoughtMarkers, tokenizer)) {}

Result<std::string> PromptEncoder::Render(
    const CompletionRequest& request) const {
  if (!chat_template_) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the model has no chat template: --chat-template FILE "
                     "gives the server one, or ask /v1/completions");
  }
  if (!request.tools.empty() && !call_format_) {
    return WrongField("tools",
                      "absent: the chat template has no calls in a form that "
                      "is known (<tool_call> with JSON or <parameter=...>, "
                      "[TOOL_CALLS], <|tool_call_start|> with Python, or an "
                      "object with \"name\" and \"parameters\")");
  }
  ChatInput input;
  input.messages_json = request.messages_json;
  const std::string variables =
      WithThoughts(request.template_json, request.thoughts, thought_style_);
  input.extra_json = variables;
  input.now_unix_s = std::time(nullptr);
  input.add_generation_prompt = request.add_generation_prompt;
  input.continue_last = request.continues_message;
  // What follows in the same role is one turn of Anthropic's.
  const bool joins_users = request.endpoint == Endpoint::kMessages ||
                           request.endpoint == Endpoint::kMessageTokens;
  Result<std::string> text = RenderTurns(*chat_template_, input, joins_users);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) {
    return WrongField("continue_final_message",
                      "false: " + WithoutFolder(text.error().message));
  }
  if (text.ok() || text.error().code == ErrorCode::kIo) return text;
  return MakeError(ErrorCode::kInvalidArgument, "request: field {}: {}",
                   PromptFieldOf(request.endpoint),
                   WithoutFolder(text.error().message));
}

bool PromptEncoder::SplitsThoughts(const CompletionRequest& request) const {
  return limits_.splits_thoughts && thought_style_.has_tags &&
         request.endpoint != Endpoint::kCompletions && !request.grammar &&
         request.forced_tools.empty();
}

Result<std::vector<std::string>> PromptEncoder::Texts(
    const CompletionRequest& request) const {
  if (!request.token_ids.empty()) return std::vector<std::string>();
  std::vector<std::string> texts = request.texts;
  if (request.endpoint != Endpoint::kCompletions) {
    ASSIGN_OR_RETURN(texts.emplace_back(), Render(request));
  }
  int64_t num_bytes = 0;
  for (const std::string& text : texts) num_bytes += std::ssize(text);
  if (num_bytes <= limits_.max_encoding_bytes) return texts;
  return MakeError(ErrorCode::kInvalidArgument,
                   "request: field {}: text must be at most {} bytes "
                   "(--max-encoding-size), is {}",
                   PromptFieldOf(request.endpoint), limits_.max_encoding_bytes,
                   num_bytes);
}

Result<PromptEncoder::Prompts> PromptEncoder::Encode(
    const CompletionRequest& request, const std::atomic<bool>& is_left) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, Texts(request));
  return Encode(request, texts, is_left);
}

Result<PromptEncoder::Prompts> PromptEncoder::Encode(
    const CompletionRequest& request, const std::vector<std::string>& texts,
    const std::atomic<bool>& is_left) const {
  if (!request.token_ids.empty()) return request.token_ids;
  Prompts prompts;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(
        prompts.emplace_back(),
        tokenizer_.Encode(text, request.add_special_tokens, &is_left));
  }
  return prompts;
}

Result<std::vector<std::string>> PromptEncoder::Pieces(
    const std::vector<int32_t>& tokens) const {
  Detokenizer detokenizer(tokenizer_, /*skip_special_tokens=*/false);
  std::vector<std::string> pieces;
  for (const int32_t token : tokens) {
    ASSIGN_OR_RETURN(pieces.emplace_back(), detokenizer.Push(token));
  }
  ASSIGN_OR_RETURN(const std::string rest, detokenizer.Finish());
  if (!pieces.empty()) pieces.back() += rest;
  return pieces;
}

std::vector<std::string> PromptEncoder::IgnoredFields(
    const CompletionRequest& request) const {
  std::vector<std::string> ignored = request.ignored;
  for (std::string& field :
       FieldsNotFollowed(request.thoughts, thought_style_)) {
    ignored.push_back(std::move(field));
  }
  if (request.endpoint == Endpoint::kCompletions) return ignored;
  for (std::string& name : untold_.NamesIn(request.messages_json,
                                           PromptFieldOf(request.endpoint))) {
    ignored.push_back(std::move(name));
  }
  return ignored;
}

std::optional<ApiError> PromptEncoder::CheckBytes(
    const CompletionRequest& request,
    const std::vector<std::string>& texts) const {
  const std::optional<int64_t> most = tokenizer_.max_token_bytes();
  if (!most) return std::nullopt;
  const std::string field = PromptFieldOf(request.endpoint);
  for (const std::string& text : texts) {
    const int64_t least = (std::ssize(text) + *most - 1) / *most;
    if (least <= limits_.max_model_len) continue;
    return ApiError{
        .message = fmt::format(
            "request: field {}: this model's maximum context length is {} "
            "tokens (--max-model-len), its {} bytes are {} tokens at least",
            field, limits_.max_model_len, text.size(), least),
        .field = field,
        .code = "context_length_exceeded"};
  }
  return std::nullopt;
}

std::optional<ThoughtSplitter> PromptEncoder::Thoughts(
    const CompletionRequest& request,
    const std::vector<std::string>& texts) const {
  if (!SplitsThoughts(request)) return std::nullopt;
  return ThoughtSplitter(BeginsThought(request, texts.front()));
}

std::vector<int32_t> PromptEncoder::MarkerIds(
    const CompletionRequest& request) const {
  std::vector<int32_t> ids;
  if (!request.skip_special_tokens) return ids;
  if (!request.tools.empty()) ids = call_marker_ids_;
  if (SplitsThoughts(request)) {
    ids.insert(ids.end(), thought_marker_ids_.begin(),
               thought_marker_ids_.end());
  }
  return ids;
}

}  // namespace winnow
