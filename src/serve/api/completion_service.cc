#include "serve/api/completion_service.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <new>
#include <random>

#include "model/config/json_fields.h"
#include "serve/answer/answer_constraint.h"
#include "serve/answer/banned_words.h"
#include "serve/answer/completion_json.h"
#include "serve/answer/messages_json.h"
#include "serve/answer/responses_json.h"
#include "serve/api/choice_seed.h"

namespace winnow {
namespace {

// What the older interface generates unasked.
constexpr int kDefaultCompletionTokens = 16;

uint64_t RandomNumber() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
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
  return std::make_unique<CompletionStyle>(
      std::move(identity), StreamUsageOf(request),
      request.names_tokens_by_id ? TokenNames::kIds : TokenNames::kTexts);
}

// Null: no calls are looked for.
std::shared_ptr<const ParameterTypes> TypesOf(
    const CompletionRequest& request) {
  if (request.tools.empty()) return nullptr;
  return std::make_shared<const ParameterTypes>(request.tools);
}

// Beside a grammar an answer is calls, or is within it.
CallPlaces PlacesOf(const CompletionRequest& request) {
  return request.grammar ? CallPlaces::kAlone : CallPlaces::kBesideText;
}

}  // namespace

CompletionService::CompletionService(ServiceOptions options,
                                     const ServiceParts& parts)
    : options_(std::move(options)),
      parts_(parts),
      prompts_(parts.tokenizer, parts.chat_template,
               {.max_model_len = options_.max_model_len,
                .max_encoding_bytes = options_.max_encoding_bytes,
                .splits_thoughts = options_.splits_thoughts}),
      grammars_(parts.tokenizer, prompts_.call_format(),
                options_.rules.vocab_size,
                options_.rules.defaults.eos_token_ids, options_.grammars),
      id_prefix_(RandomNumber()) {
  CHECK(!options_.model_names.empty() && !options_.selects.empty());
}

ApiError CompletionService::NoSuchModel(std::string_view model) const {
  return {.status = 404,
          .message = fmt::format("model must be \"{}\", is \"{}\"",
                                 fmt::join(options_.model_names, "\" or \""),
                                 Printable(model)),
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

int CompletionService::MaxTokens(const CompletionRequest& request,
                                 size_t prompt_length) const {
  // One is drawn where none is shown: the prompt's last row is computed anyway.
  if (request.max_tokens) return std::max(*request.max_tokens, 1);
  const int unasked = request.endpoint == Endpoint::kCompletions
                          ? kDefaultCompletionTokens
                          : options_.default_max_tokens;
  // The last token is never fed back.
  const int left = options_.max_model_len - static_cast<int>(prompt_length) + 1;
  return std::clamp(left, 1, unasked);
}

std::optional<ApiError> CompletionService::CheckLengths(
    const CompletionRequest& request,
    const PromptEncoder::Prompts& prompts) const {
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
                                     std::span<const std::string> unheld,
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
  form.marker_ids = prompts_.MarkerIds(request);
  if (request.skip_special_tokens && !request.ignore_eos) {
    form.end_ids = options_.rules.defaults.eos_token_ids;
  }
  std::vector<std::string> ignored = prompts_.IgnoredFields(request);
  ignored.insert(ignored.end(), unheld.begin(), unheld.end());
  form.headers = IgnoredFieldsHeaders(ignored);
  return form;
}

Request CompletionService::RequestFor(const CompletionRequest& request,
                                      const Prepared& prepared,
                                      const PreparedPrompt& prompt) const {
  Request asked;
  asked.prompt = prompt.token_ids;
  asked.max_tokens = MaxTokens(request, asked.prompt.size());
  asked.may_get_fewer = !request.max_tokens;
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
  if (prompt.matcher) {
    asked.constraint =
        std::make_shared<AnswerConstraint>(prompt.matcher->Clone());
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

// A chat's answer begins a text, any other goes on behind its prompt. What is
// held to a grammar does so everywhere, to the letter; but where spaces between
// words are no word's own, none goes before its first.
bool CompletionService::GoesOn(const CompletionRequest& request,
                               const Detokenizer& text) {
  if (request.grammar || !request.forced_tools.empty()) {
    return !text.puts_spaces();
  }
  return request.endpoint == Endpoint::kCompletions ||
         request.continues_message;
}

// Where special tokens belong to calls or thoughts, CompletionAnswer leaves out
// the others.
Result<CompletionService::PreparedPrompt> CompletionService::PreparePrompt(
    const CompletionRequest& request, std::vector<int32_t> token_ids,
    const std::string& text) const {
  const bool skips =
      request.skip_special_tokens && prompts_.MarkerIds(request).empty();
  PreparedPrompt prompt = {.token_ids = std::move(token_ids),
                           .text = Detokenizer(parts_.tokenizer, skips),
                           .echo = {}};
  const std::vector<int32_t>& ids = prompt.token_ids;
  const bool goes_on = GoesOn(request, prompt.text);
  if (request.echo) prompt.echo = {.text = text, .token_ids = ids};
  const bool echoes_ids = request.echo && request.texts.empty();
  if (!echoes_ids) {
    if (goes_on) RETURN_IF_ERROR(prompt.text.Follow(ids));
    return prompt;
  }
  if (!goes_on || request.max_tokens == 0) {
    ASSIGN_OR_RETURN(prompt.echo->text, parts_.tokenizer.Decode(ids, skips));
    return prompt;
  }
  // A character that it leaves unfinished is the answer's.
  for (const int32_t id : ids) {
    ASSIGN_OR_RETURN(const std::string piece, prompt.text.Push(id));
    prompt.echo->text += piece;
  }
  return prompt;
}

// Once for each place, whatever the number of prompts. What is not held is the
// same at each.
Result<std::vector<std::string>> CompletionService::CompileGrammars(
    const CompletionRequest& request, std::vector<PreparedPrompt>& prompts) {
  std::vector<std::string> unheld;
  for (const bool begins : {true, false}) {
    std::optional<HeldAnswer> held;
    for (PreparedPrompt& prompt : prompts) {
      if (prompt.text.begins() != begins) continue;
      if (!held) {
        ASSIGN_OR_RETURN(
            held,
            grammars_.Compile(request, begins ? AnswerPlace::kBeginsText
                                              : AnswerPlace::kFollowsText));
        unheld = held->unheld;
      }
      if (held->matcher) prompt.matcher = held->matcher->Clone();
    }
  }
  return unheld;
}

// A seed means the same for each prompt as for that one alone; without one all
// answers are drawn apart.
CompletionService::Started CompletionService::Submit(
    const CompletionRequest& request, const Prepared& prepared,
    std::shared_ptr<RequestRecord> record) {
  const uint64_t number = num_answers_++;
  const uint64_t unasked_seed = MixSeed(options_.seed, number);
  AnswerForm form = FormOf(request, prepared.unheld, number);
  form.deadline = prepared.deadline;
  const std::shared_ptr<const ParameterTypes> tools = TypesOf(request);
  std::vector<Submission> submissions;
  std::vector<AnswerSource> sources;
  for (const PreparedPrompt& prompt : prepared.prompts) {
    const int64_t length = std::ssize(prompt.token_ids);
    form.num_prompt_tokens += length;
    const auto told_ids = ToldIds(request, prompt.token_ids);
    const auto answers = std::make_shared<PromptAnswers>(
        PromptAnswers{.n = request.n, .num_left = request.n});
    for (int i = 0; i < request.n; ++i) {
      Request asked = RequestFor(request, prepared, prompt);
      asked.sampling.seed =
          request.seed ? ChoiceSeed(*request.seed, static_cast<uint64_t>(i))
                       : ChoiceSeed(unasked_seed, sources.size());
      Result<StopMatcher> stops =
          StopMatcher::Create(request.stop, request.keeps_stops);
      if (!stops.ok()) return ApiErrorOf(stops.error());
      auto feed = std::make_shared<TokenFeed>(
          parts_.metrics, AskedTokens{asked.max_tokens, answers});
      AnswerSource& source = sources.emplace_back(AnswerSource{
          .feed = feed,
          .text = AnswerText(prompt.text.Clone(), *std::move(stops)),
          .num_prompt_tokens = length,
          .thoughts = prepared.thoughts,
          .echo = prompt.echo,
          .prompt_token_ids = told_ids});
      if (tools) {
        source.calls.emplace(*prompts_.call_format(), tools, PlacesOf(request));
      }
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
  if (auto error = CheckNames(request)) return *std::move(error);
  const auto begun = std::chrono::steady_clock::now();
  const Result<std::vector<std::string>> texts = prompts_.Texts(request);
  if (!texts.ok()) return ApiErrorOf(texts.error());
  if (auto error = prompts_.CheckBytes(request, *texts))
    return *std::move(error);
  Result<PromptEncoder::Prompts> prompts =
      prompts_.Encode(request, *texts, is_left);
  if (!prompts.ok()) return ApiErrorOf(prompts.error());
  record->encode_ms = std::chrono::duration<double, std::milli>(
                          std::chrono::steady_clock::now() - begun)
                          .count();
  if (auto error = CheckLengths(request, *prompts)) return *std::move(error);
  if (is_left) return ApiErrorOf(NobodyWaits());
  std::vector<PreparedPrompt> prepared_prompts;
  for (size_t i = 0; i < prompts->size(); ++i) {
    auto prompt = PreparePrompt(request, std::move((*prompts)[i]),
                                texts->empty() ? "" : (*texts)[i]);
    if (!prompt.ok()) return ApiErrorOf(prompt.error());
    prepared_prompts.push_back(*std::move(prompt));
  }
  auto unheld = CompileGrammars(request, prepared_prompts);
  if (!unheld.ok()) return ApiErrorOf(unheld.error());
  auto banned_words = EncodeBannedWords(request.bad_words, parts_.tokenizer);
  if (!banned_words.ok()) return ApiErrorOf(banned_words.error());
  if (is_left) return ApiErrorOf(NobodyWaits());
  Prepared prepared = {.prompts = std::move(prepared_prompts),
                       .selector = *SelectorFor(request.select),
                       .deadline = deadline,
                       .unheld = *std::move(unheld),
                       .thoughts = prompts_.Thoughts(request, *texts),
                       .banned_words = *std::move(banned_words)};
  return Submit(request, prepared, std::move(record));
}

}  // namespace winnow
