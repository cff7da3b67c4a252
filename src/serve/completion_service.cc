#include "serve/completion_service.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <ctime>
#include <iterator>
#include <new>
#include <random>
#include <span>

#include "model/json_fields.h"
#include "serve/answer_constraint.h"
#include "serve/banned_words.h"
#include "serve/completion_json.h"
#include "serve/messages_json.h"
#include "serve/responses_json.h"
#include "text/json_slices.h"

namespace winnow {
namespace {

// What the older interface generates unasked.
constexpr int kDefaultCompletionTokens = 16;
constexpr size_t kMaxIgnoredNames = 16;
constexpr std::string_view kThoughtMarkers[] = {kThoughtTag, kThoughtEndTag};

uint64_t RandomNumber() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

// Names that a header may carry.
std::string HeaderListOf(const std::vector<std::string>& names) {
  std::string list;
  for (size_t i = 0; i < names.size() && i < kMaxIgnoredNames; ++i) {
    const bool plain = std::ranges::all_of(names[i], [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
    });
    if (!list.empty()) list += ", ";
    list += plain && names[i].size() <= 64 ? names[i] : "(another)";
  }
  return list;
}

// Two numbers to one that neither gives away: SplitMix64 (Steele, Lea and
// Flood, 2014, figure 17).
uint64_t SeedOf(uint64_t seed, uint64_t number) {
  uint64_t mixed = seed + 0x9E3779B97F4A7C15u * (number + 1);
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
  return mixed ^ (mixed >> 31);
}

std::optional<ToolCallFormat> CallFormatOf(
    const std::optional<ChatTemplate>& chat_template) {
  if (!chat_template) return std::nullopt;
  return ToolCallFormatOf(chat_template->ToolSource());
}

ThoughtStyle ThoughtStyleOf(const std::optional<ChatTemplate>& chat_template) {
  if (!chat_template) return {};
  return winnow::ThoughtStyleOf(chat_template->ToolSource());
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

// Behind the text of a chat's last message: where a template puts it, there the
// message's own end marks begin.
constexpr std::string_view kEndMark = "WINNOW_GOES_ON_HERE";

// Empty where that message has no text.
std::string WithEndMarked(const std::string& messages_json) {
  const std::vector<std::string_view> messages = ElementsOf(messages_json);
  if (messages.empty()) return {};
  const std::string_view content = MemberOf(messages.back(), "content");
  if (!content.starts_with('"')) return {};
  const auto end = content.data() + content.size() - 1 - messages_json.data();
  std::string marked = messages_json;
  return marked.insert(static_cast<size_t>(end), kEndMark);
}

// Whether an answer to this prompt goes on with a thought.
bool BeginsThought(const CompletionRequest& request, std::string_view prompt) {
  if (!request.continues_message) return EndsInThoughtTag(prompt);
  // What others have said may hold tags.
  return LeavesThoughtOpen(
      MemberOf(ElementsOf(request.messages_json).back(), "content"));
}

std::string_view IdPrefixOf(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kCompletions:
      return "cmpl-";
    case Endpoint::kChatCompletions:
      return "chatcmpl-";
    case Endpoint::kResponses:
      return "resp_";
    case Endpoint::kMessages:
    case Endpoint::kMessageTokens:
      return "msg_";
  }
  CHECK(false, "endpoint={}", static_cast<int>(endpoint));
}

// Whoever asks need not know where the server keeps its files:
// "FOLDER/FILE: ..." is "FILE: ...".
std::string WithoutFolder(std::string_view message) {
  const size_t slash = message.substr(0, message.find(": ")).rfind('/');
  return std::string(
      slash == std::string_view::npos ? message : message.substr(slash + 1));
}

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

// Told to nobody.
Error NobodyWaits() {
  return MakeError(ErrorCode::kCancelled, "the client has left");
}

ApiError NotTakenIn(const Error& error) {
  if (error.code == ErrorCode::kInvalidArgument) {
    return {.message = error.message};
  }
  const bool full = error.code == ErrorCode::kResourceExhausted;
  return {.status = full ? 429 : 503,
          .message = error.message,
          .headers = {{"Retry-After", "1"}}};
}

StreamUsage StreamUsageOf(const CompletionRequest& request) {
  if (!request.include_usage) return StreamUsage::kNone;
  return request.continuous_usage ? StreamUsage::kInEach : StreamUsage::kAtEnd;
}

// Null where nobody asked.
std::shared_ptr<const std::vector<int32_t>> ToldIds(
    const CompletionRequest& request, const std::vector<int32_t>& prompt) {
  if (!request.returns_token_ids) return nullptr;
  return std::make_shared<const std::vector<int32_t>>(prompt);
}

std::unique_ptr<AnswerStyle> StyleOf(const CompletionRequest& request,
                                     AnswerIdentity identity) {
  if (request.endpoint == Endpoint::kResponses) {
    return std::make_unique<ResponsesStyle>(std::move(identity),
                                            request.echo_json);
  }
  if (request.endpoint == Endpoint::kMessages) {
    return std::make_unique<MessagesStyle>(std::move(identity));
  }
  return std::make_unique<CompletionStyle>(std::move(identity),
                                           StreamUsageOf(request));
}

}  // namespace

CompletionService::CompletionService(ServiceOptions options,
                                     const ServiceParts& parts)
    : options_(std::move(options)),
      parts_(parts),
      call_format_(CallFormatOf(parts.chat_template)),
      thought_style_(ThoughtStyleOf(parts.chat_template)),
      call_marker_ids_(
          SpecialMarkers(MarkersOf(call_format_), parts.tokenizer)),
      thought_marker_ids_(SpecialMarkers(kThoughtMarkers, parts.tokenizer)),
      id_prefix_(RandomNumber()) {
  CHECK(!options_.model_names.empty() && !options_.selects.empty());
}

ApiError CompletionService::NoSuchModel(std::string_view model) const {
  return {
      .status = 404,
      .message = fmt::format("model must be \"{}\", is \"{}\"",
                             options_.model_names.front(), Printable(model)),
      .field = "model",
      .code = "model_not_found"};
}

std::optional<ApiError> CompletionService::CheckModel(
    const std::string& model) const {
  if (model.empty() || std::ranges::find(options_.model_names, model) !=
                           options_.model_names.end()) {
    return std::nullopt;
  }
  return NoSuchModel(model);
}

std::optional<ApiError> CompletionService::CheckNames(
    const CompletionRequest& request) const {
  if (auto error = CheckModel(request.model)) return error;
  const Result<int> selector = SelectorFor(request.select);
  if (!selector.ok()) return ApiErrorOf(selector.error());
  return std::nullopt;
}

Result<int> CompletionService::SelectorFor(const std::string& select) const {
  if (select.empty()) return options_.selects.front().second;
  std::string offered;
  for (const auto& [name, number] : options_.selects) {
    if (name == select) return number;
    offered += (offered.empty() ? "\"" : ", \"") + name + "\"";
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "request: field select: must be one that the server was "
                   "started with ({}), is \"{}\"",
                   offered, Printable(select));
}

Result<std::string> CompletionService::Render(
    const CompletionRequest& request) const {
  if (!parts_.chat_template) {
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
  const std::string marked = request.continues_message
                                 ? WithEndMarked(request.messages_json)
                                 : std::string();
  if (request.continues_message && marked.empty()) {
    return WrongField("continue_final_message",
                      "false: the last message has no text");
  }
  input.messages_json =
      request.continues_message ? marked : request.messages_json;
  const std::string variables =
      WithThoughts(request.template_json, request.thoughts, thought_style_);
  input.extra_json = variables;
  input.now_unix_s = std::time(nullptr);
  input.add_generation_prompt = request.add_generation_prompt;
  Result<std::string> text = parts_.chat_template->Render(input);
  if (text.ok() && request.continues_message) {
    const size_t end = text->rfind(kEndMark);
    if (end != std::string::npos) return text->substr(0, end);
    return WrongField("continue_final_message",
                      "false: the template does not write the last message");
  }
  if (text.ok() || text.error().code == ErrorCode::kIo) return text;
  return MakeError(ErrorCode::kInvalidArgument, "request: field {}: {}",
                   PromptFieldOf(request.endpoint),
                   WithoutFolder(text.error().message));
}

// What a grammar holds begins with the answer.
bool CompletionService::SplitsThoughts(const CompletionRequest& request) const {
  return options_.splits_thoughts && thought_style_.has_tags &&
         request.endpoint != Endpoint::kCompletions && !request.grammar &&
         request.forced_tools.empty();
}

Result<std::vector<std::string>> CompletionService::Texts(
    const CompletionRequest& request) const {
  if (!request.token_ids.empty()) return std::vector<std::string>();
  std::vector<std::string> texts = request.texts;
  if (request.endpoint != Endpoint::kCompletions) {
    ASSIGN_OR_RETURN(texts.emplace_back(), Render(request));
  }
  int64_t num_bytes = 0;
  for (const std::string& text : texts) num_bytes += std::ssize(text);
  if (num_bytes <= options_.max_encoding_bytes) return texts;
  return MakeError(ErrorCode::kInvalidArgument,
                   "request: field {}: text must be at most {} bytes "
                   "(--max-encoding-size), is {}",
                   PromptFieldOf(request.endpoint), options_.max_encoding_bytes,
                   num_bytes);
}

Result<CompletionService::Prompts> CompletionService::Encode(
    const CompletionRequest& request, const std::atomic<bool>& is_left) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, Texts(request));
  return Encode(request, texts, is_left);
}

Result<CompletionService::Prompts> CompletionService::Encode(
    const CompletionRequest& request, const std::vector<std::string>& texts,
    const std::atomic<bool>& is_left) const {
  if (!request.token_ids.empty()) return request.token_ids;
  Prompts prompts;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(
        prompts.emplace_back(),
        parts_.tokenizer.Encode(text, request.add_special_tokens, &is_left));
  }
  return prompts;
}

Result<std::vector<std::string>> CompletionService::Pieces(
    const std::vector<int32_t>& tokens) const {
  Detokenizer detokenizer(parts_.tokenizer, /*skip_special_tokens=*/false);
  std::vector<std::string> pieces;
  for (const int32_t token : tokens) {
    ASSIGN_OR_RETURN(pieces.emplace_back(), detokenizer.Push(token));
  }
  ASSIGN_OR_RETURN(const std::string rest, detokenizer.Finish());
  if (!pieces.empty()) pieces.back() += rest;
  return pieces;
}

int CompletionService::MaxTokens(const CompletionRequest& request,
                                 size_t prompt_length) const {
  // One is drawn where none is shown: the prompt's last row is computed anyway.
  if (request.max_tokens) return std::max(*request.max_tokens, 1);
  if (request.endpoint == Endpoint::kCompletions) {
    return kDefaultCompletionTokens;
  }
  // The last token is never fed back.
  const int left = options_.max_model_len - static_cast<int>(prompt_length) + 1;
  return std::clamp(left, 1, options_.default_max_tokens);
}

std::optional<ApiError> CompletionService::CheckBytes(
    const CompletionRequest& request,
    const std::vector<std::string>& texts) const {
  const std::optional<int64_t> most = parts_.tokenizer.max_token_bytes();
  if (!most) return std::nullopt;
  const std::string field = PromptFieldOf(request.endpoint);
  for (const std::string& text : texts) {
    const int64_t least = (std::ssize(text) + *most - 1) / *most;
    if (least <= options_.max_model_len) continue;
    return ApiError{
        .message = fmt::format(
            "request: field {}: this model's maximum context length is {} "
            "tokens (--max-model-len), its {} bytes are {} tokens at least",
            field, options_.max_model_len, text.size(), least),
        .field = field,
        .code = "context_length_exceeded"};
  }
  return std::nullopt;
}

std::optional<ApiError> CompletionService::CheckLengths(
    const CompletionRequest& request, const Prompts& prompts) const {
  const std::string field = PromptFieldOf(request.endpoint);
  for (const std::vector<int32_t>& prompt : prompts) {
    if (prompt.empty()) {
      return ApiError{.message = fmt::format("request: field {}: must have at "
                                             "least 1 token, has 0",
                                             field),
                      .field = field};
    }
    const int64_t length = std::ssize(prompt);
    const int64_t max_tokens =
        length > options_.max_model_len ? 1 : MaxTokens(request, prompt.size());
    if (length + max_tokens - 1 > options_.max_model_len) {
      // "This model's maximum context length is": litellm knows it by that.
      return ApiError{
          .message = fmt::format(
              "request: field {}: this model's maximum context length is {} "
              "tokens (--max-model-len), its tokens and max_tokens are {} and "
              "{}",
              field, options_.max_model_len, length,
              request.max_tokens.value_or(static_cast<int>(max_tokens))),
          .field = field,
          .code = "context_length_exceeded"};
    }
    const int64_t most = request.max_tokens.value_or(max_tokens);
    if (request.min_tokens > most) {
      return ApiError{
          .message = fmt::format("request: field min_tokens: must be at most "
                                 "max_tokens ({}), is {}",
                                 most, request.min_tokens),
          .field = "min_tokens"};
    }
  }
  return std::nullopt;
}

std::optional<Deadline> CompletionService::DeadlineOf(
    const CompletionRequest& request,
    Sequence::Clock::time_point arrived) const {
  const double most = options_.max_request_s;
  const double asked = request.timeout_s.value_or(0);
  const bool is_asked = asked > 0 && (most <= 0 || asked <= most);
  const double seconds = is_asked ? asked : most;
  if (seconds <= 0) return std::nullopt;
  return Deadline{
      .at = arrived + std::chrono::duration_cast<Sequence::Clock::duration>(
                          std::chrono::duration<double>(seconds)),
      .limit = fmt::format(
          "{} ({} s)", is_asked ? "timeout" : "--request-timeout", seconds)};
}

AnswerForm CompletionService::FormOf(const CompletionRequest& request,
                                     uint64_t number) const {
  AnswerIdentity identity = {
      .endpoint = request.endpoint,
      .id = fmt::format("{}{:016x}{:08x}", IdPrefixOf(request.endpoint),
                        id_prefix_, number),
      .model =
          request.model.empty() ? options_.model_names.front() : request.model,
      .created_unix_s = std::time(nullptr)};
  AnswerForm form = {.style = nullptr,
                     .id = identity.id,
                     .stream = request.stream,
                     .with_logprobs = request.sampling.logprobs.has_value(),
                     .one_call = request.one_call,
                     .shows_generated = request.max_tokens != 0,
                     .shows_thoughts = request.thoughts.shows,
                     .stops = request.stop,
                     .prompt_field = PromptFieldOf(request.endpoint),
                     .answers_per_prompt = request.n};
  form.style = StyleOf(request, std::move(identity));
  if (request.skip_special_tokens) {
    if (!request.tools.empty()) form.marker_ids = call_marker_ids_;
    if (SplitsThoughts(request)) {
      form.marker_ids.insert(form.marker_ids.end(), thought_marker_ids_.begin(),
                             thought_marker_ids_.end());
    }
  }
  std::vector<std::string> ignored = request.ignored;
  for (std::string& field :
       FieldsNotFollowed(request.thoughts, thought_style_)) {
    ignored.push_back(std::move(field));
  }
  if (!ignored.empty()) {
    form.headers.emplace_back("X-Winnow-Ignored-Fields", HeaderListOf(ignored));
  }
  return form;
}

Request CompletionService::RequestFor(
    const CompletionRequest& request, const Prepared& prepared,
    const std::vector<int32_t>& prompt) const {
  Request asked;
  asked.prompt = prompt;
  asked.max_tokens = MaxTokens(request, prompt.size());
  if (!request.ignore_eos) {
    asked.end_token_ids = options_.rules.defaults.eos_token_ids;
  }
  asked.end_token_ids.insert(asked.end_token_ids.end(),
                             request.stop_token_ids.begin(),
                             request.stop_token_ids.end());
  asked.min_tokens = request.min_tokens;
  asked.allowed_token_ids = request.allowed_token_ids;
  asked.sampling = request.sampling;
  asked.selector = prepared.selector;
  asked.deadline = prepared.deadline;
  if (prepared.matcher) {
    asked.constraint =
        std::make_shared<AnswerConstraint>(prepared.matcher->Clone());
  }
  if (!prepared.banned_words.empty()) {
    asked.constraint = std::make_shared<BannedWords>(
        prepared.banned_words, std::move(asked.constraint));
  }
  asked.cache_salt = request.cache_salt;
  asked.priority = request.priority;
  asked.is_watched = request.wants_picks;
  if (request.echo) asked.prompt_logprobs = request.sampling.logprobs;
  return asked;
}

// Where special tokens belong to calls or thoughts, CompletionAnswer leaves out
// the others.
AnswerText CompletionService::TextFor(const CompletionRequest& request,
                                      const AnswerForm& form,
                                      StopMatcher stops) const {
  const bool skip = request.skip_special_tokens && form.marker_ids.empty();
  return AnswerText(Detokenizer(parts_.tokenizer, skip), std::move(stops));
}

Result<const GrammarVocabulary*> CompletionService::Vocabulary() {
  const bool may_be_there_now = vocabulary_ && !vocabulary_->ok() &&
                                vocabulary_->error().code == ErrorCode::kIo;
  if (!vocabulary_ || may_be_there_now) {
    vocabulary_ = GrammarVocabulary::Create(
        parts_.tokenizer, options_.rules.vocab_size,
        options_.rules.defaults.eos_token_ids, options_.grammars);
  }
  if (!vocabulary_->ok()) return vocabulary_->error();
  return &**vocabulary_;
}

Result<std::optional<AskedGrammar>> CompletionService::GrammarOf(
    const CompletionRequest& request) const {
  if (request.forced_tools.empty()) return request.grammar;
  constexpr const char* kField = "tools";
  Result<Grammar> grammar =
      ToolCallGrammar(*call_format_, request.forced_tools, request.one_call,
                      parts_.tokenizer, options_.grammars.max_bytes);
  if (!grammar.ok()) {
    return MakeError(ErrorCode::kInvalidArgument, "request: field {}: {}",
                     kField, grammar.error().message);
  }
  return std::optional(
      AskedGrammar{.grammar = *std::move(grammar), .field = kField});
}

Result<std::optional<GrammarMatcher>> CompletionService::Constrain(
    const CompletionRequest& request) {
  ASSIGN_OR_RETURN(const std::optional<AskedGrammar> asked, GrammarOf(request));
  if (!asked) return std::optional<GrammarMatcher>();
  const std::scoped_lock lock(grammar_mutex_);
  ASSIGN_OR_RETURN(const GrammarVocabulary* vocabulary, Vocabulary());
  Result<GrammarMatcher> matcher = vocabulary->Compile(asked->grammar);
  if (matcher.ok()) return std::optional(*std::move(matcher));
  if (matcher.error().code == ErrorCode::kIo) return matcher.error();
  return MakeError(ErrorCode::kInvalidArgument, "request: field {}: {}",
                   asked->field, matcher.error().message);
}

Result<std::vector<EchoedPrompt>> CompletionService::EchoesOf(
    const CompletionRequest& request, const Prompts& prompts) const {
  std::vector<EchoedPrompt> echoes;
  for (size_t i = 0; request.echo && i < prompts.size(); ++i) {
    EchoedPrompt& echo = echoes.emplace_back(
        EchoedPrompt{.text = request.texts.empty() ? "" : request.texts[i],
                     .token_ids = prompts[i]});
    if (!request.texts.empty()) continue;
    ASSIGN_OR_RETURN(echo.text, parts_.tokenizer.Decode(
                                    prompts[i], request.skip_special_tokens));
  }
  return echoes;
}

CompletionService::Started CompletionService::Submit(
    const CompletionRequest& request, const Prepared& prepared,
    std::shared_ptr<RequestRecord> record) {
  const uint64_t number = num_answers_++;
  const uint64_t seed = request.seed.value_or(SeedOf(options_.seed, number));
  AnswerForm form = FormOf(request, number);
  form.deadline = prepared.deadline;
  const auto tools =
      request.tools.empty()
          ? nullptr
          : std::make_shared<const ParameterTypes>(request.tools);
  std::vector<Submission> submissions;
  std::vector<AnswerSource> sources;
  for (size_t p = 0; p < prepared.prompts.size(); ++p) {
    const std::vector<int32_t>& prompt = prepared.prompts[p];
    form.num_prompt_tokens += std::ssize(prompt);
    const auto told_ids = ToldIds(request, prompt);
    const auto answers = std::make_shared<PromptAnswers>(
        PromptAnswers{.n = request.n, .num_left = request.n});
    for (int i = 0; i < request.n; ++i) {
      Request asked = RequestFor(request, prepared, prompt);
      asked.sampling.seed = seed + static_cast<uint64_t>(i);
      Result<StopMatcher> stops =
          StopMatcher::Create(request.stop, request.keeps_stops);
      if (!stops.ok()) return ApiErrorOf(stops.error());
      auto feed = std::make_shared<TokenFeed>(
          parts_.metrics, AskedTokens{asked.max_tokens, answers});
      AnswerSource& source = sources.emplace_back(
          AnswerSource{.feed = feed,
                       .text = TextFor(request, form, *std::move(stops)),
                       .num_prompt_tokens = std::ssize(prompt),
                       .thoughts = prepared.thoughts,
                       .prompt_token_ids = told_ids});
      if (request.echo) source.echo = prepared.echoes[p];
      if (tools) source.calls.emplace(*call_format_, tools);
      submissions.push_back({std::move(asked), std::move(feed)});
    }
  }
  std::vector<std::shared_ptr<TokenFeed>> feeds;
  for (const AnswerSource& source : sources) feeds.push_back(source.feed);
  const Result<std::vector<Ticket>> tickets =
      parts_.loop.Submit(std::move(submissions));
  if (!tickets.ok()) return NotTakenIn(tickets.error());
  for (size_t i = 0; i < sources.size(); ++i) sources[i].ticket = (*tickets)[i];
  try {
    form.record = std::move(record);
    form.record->answer = form.id;
    form.record->num_prompt_tokens = form.num_prompt_tokens;
    return std::make_unique<CompletionAnswer>(
        std::move(form), std::move(sources),
        [&loop = parts_.loop](Ticket ticket) { loop.Cancel(ticket); },
        parts_.tokenizer, parts_.metrics);
  } catch (const std::bad_alloc&) {
    // What runs already is nobody's.
    for (const auto& feed : feeds) feed->Leave();
    throw;
  }
}

CompletionService::Started CompletionService::Start(
    const CompletionRequest& request, const std::optional<Deadline>& deadline,
    std::shared_ptr<RequestRecord> record, const std::atomic<bool>& is_left) {
  if (auto error = CheckModel(request.model)) return *std::move(error);
  const Result<int> selector = SelectorFor(request.select);
  if (!selector.ok()) return ApiErrorOf(selector.error());
  const auto begun = std::chrono::steady_clock::now();
  const Result<std::vector<std::string>> texts = Texts(request);
  if (!texts.ok()) return ApiErrorOf(texts.error());
  if (auto error = CheckBytes(request, *texts)) return *std::move(error);
  Result<Prompts> prompts = Encode(request, *texts, is_left);
  if (!prompts.ok()) return ApiErrorOf(prompts.error());
  record->encode_ms = std::chrono::duration<double, std::milli>(
                          std::chrono::steady_clock::now() - begun)
                          .count();
  if (auto error = CheckLengths(request, *prompts)) return *std::move(error);
  if (is_left) return ApiErrorOf(NobodyWaits());
  Result<std::optional<GrammarMatcher>> matcher = Constrain(request);
  if (!matcher.ok()) return ApiErrorOf(matcher.error());
  Result<std::vector<EchoedPrompt>> echoes = EchoesOf(request, *prompts);
  if (!echoes.ok()) return ApiErrorOf(echoes.error());
  auto banned_words = EncodeBannedWords(request.bad_words, parts_.tokenizer);
  if (!banned_words.ok()) return ApiErrorOf(banned_words.error());
  if (is_left) return ApiErrorOf(NobodyWaits());
  Prepared prepared = {.prompts = *std::move(prompts),
                       .echoes = *std::move(echoes),
                       .selector = *selector,
                       .deadline = deadline,
                       .matcher = *std::move(matcher),
                       .thoughts = {},
                       .banned_words = *std::move(banned_words)};
  if (SplitsThoughts(request)) {
    prepared.thoughts.emplace(BeginsThought(request, texts->front()));
  }
  return Submit(request, prepared, std::move(record));
}

}  // namespace winnow
