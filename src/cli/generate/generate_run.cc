#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>

#include "base/size_text.h"
#include "cli/command/end_tokens.h"
#include "cli/command/interrupt.h"
#include "cli/command/kv_use.h"
#include "cli/command/loaded_model.h"
#include "cli/command/output.h"
#include "cli/command/progress.h"
#include "cli/generate/generate.h"
#include "cli/generate/generate_json.h"
#include "cli/generate/generation.h"

namespace winnow {
namespace {

// One command's work: what it opened, and what came of each prompt. Prompts
// run as one batch; their texts are shown one after another, each as it grows
// once those before it have ended.
class GenerateRun {
 public:
  GenerateRun(const GenerateFlags& flags, std::vector<PromptText> texts)
      : flags_(flags),
        texts_(std::move(texts)),
        streams_text_(!flags.engine.json || !flags.engine.json_file.empty()),
        streams_to_terminal_(streams_text_ && isatty(STDOUT_FILENO) == 1) {}

  Result<int> Run();

 private:
  Status EncodePrompts();
  Status MakeEngine();
  int MaxTokens(const std::vector<int32_t>& prompt) const;
  SamplingParams Sampling() const;
  Request RequestOf(size_t index) const;
  // Why a prompt cannot run; fails where that is to end the command.
  Result<std::optional<Error>> RefusalOf(size_t index) const;
  Status AddRequests();
  // False where it was interrupted. Fails soon after the output does: nobody
  // is to have what would still be generated.
  Result<bool> RunToTheEnd();
  void ShowText(size_t index, std::string_view text);
  void ShowEnded();
  void PrintClosingLine() const;
  Status WriteLines() const;

  using Clock = std::chrono::steady_clock;

  const GenerateFlags& flags_;
  const std::vector<PromptText> texts_;
  const bool streams_text_;
  const bool streams_to_terminal_;
  int64_t max_model_len_ = 0;
  Interrupt interrupt_;  // before any thread
  LoadedModel loaded_;
  std::vector<std::vector<int32_t>> prompts_;
  std::unique_ptr<BatchProgress> batch_;
  std::unique_ptr<Progress> reading_;
  std::vector<std::unique_ptr<Generation>> generations_;
  std::vector<SequenceId> ids_;
  size_t shown_ = 0;               // the prompt whose text is being shown
  std::vector<std::string> held_;  // text of later prompts
  // Last, so that it goes first: it tells the generations that they end.
  std::unique_ptr<Engine> engine_;
};

template <typename T, typename From>
T ValueOr(const std::optional<T>& own, const std::optional<From>& checkpoint,
          T neutral) {
  if (own) return *own;
  return checkpoint ? static_cast<T>(*checkpoint) : neutral;
}

SamplingParams GenerateRun::Sampling() const {
  const GenerationDefaults& defaults = loaded_.model->config().generation;
  SamplingParams params;
  // Greedy unless the checkpoint or the user wants a draw; a flag that only
  // makes sense for a draw asks for one.
  const bool draws =
      defaults.do_sample || flags_.top_p || flags_.top_k || flags_.min_p;
  params.temperature = ValueOr(
      flags_.temperature,
      defaults.do_sample ? defaults.temperature : std::optional<double>(),
      draws ? 1.0f : 0.0f);
  params.top_p = ValueOr(flags_.top_p, defaults.top_p, 1.0f);
  params.min_p = ValueOr(flags_.min_p, defaults.min_p, 0.0f);
  params.top_k = ValueOr(flags_.top_k, defaults.top_k, 0);
  params.repetition_penalty =
      ValueOr(flags_.repetition_penalty, defaults.repetition_penalty, 1.0f);
  params.seed = flags_.engine.seed;
  params.logprobs = flags_.logprobs;
  return params;
}

Status GenerateRun::EncodePrompts() {
  for (const PromptText& text : texts_) {
    ASSIGN_OR_RETURN(
        std::vector<int32_t> ids,
        EncodePrompt(text, flags_.engine.model, *loaded_.tokenizer));
    RETURN_IF_ERROR(CheckTokenRows(ids, *loaded_.tokenizer,
                                   loaded_.model->config().vocab_size,
                                   text.origin));
    prompts_.push_back(std::move(ids));
  }
  return Ok{};
}

// Nobody is refused for a limit that was not asked for.
int GenerateRun::MaxTokens(const std::vector<int32_t>& prompt) const {
  constexpr int64_t kDefault = 512;
  // The last token is never fed back.
  const int64_t left = max_model_len_ - std::ssize(prompt) + 1;
  return flags_.max_tokens.value_or(
      static_cast<int>(std::clamp<int64_t>(left, 1, kDefault)));
}

Status GenerateRun::MakeEngine() {
  ASSIGN_OR_RETURN(EngineOptions options, ParseEngineOptions(flags_.engine));
  const Model& model = *loaded_.model;
  max_model_len_ = options.max_model_len > 0
                       ? options.max_model_len
                       : model.config().max_context_tokens;
  if (flags_.engine.device_kv.empty()) {
    // As much as all prompts need together, if there is that much; a single
    // prompt that does not fit is refused when it is added.
    int64_t num_pages = 1;
    for (const auto& prompt : prompts_) {
      num_pages += PagesFor(std::ssize(prompt) + MaxTokens(prompt));
    }
    options.device_kv_bytes = KvBytesFor(loaded_, num_pages);
  }
  options.max_num_seqs = std::min(
      options.max_num_seqs, std::max(1, static_cast<int>(prompts_.size())));
  ASSIGN_OR_RETURN(
      options.selectors,
      SelectorsOf({flags_.engine.select}, model.config().native_selector));
  ASSIGN_OR_RETURN(std::unique_ptr<DiskStore> disk,
                   OpenKvDisk(flags_.kv_disk, loaded_, flags_.engine.quiet));
  ASSIGN_OR_RETURN(engine_, Engine::Create(*loaded_.backend, model, options,
                                           std::move(disk)));
  return Ok{};
}

Request GenerateRun::RequestOf(size_t index) const {
  Request request;
  request.prompt = prompts_[index];
  request.max_tokens = MaxTokens(prompts_[index]);
  request.may_get_fewer = !flags_.max_tokens;
  request.end_token_ids =
      EndTokenIds(loaded_.model->config(), *loaded_.tokenizer);
  request.sampling = Sampling();
  request.selector = engine_->selectors().size() - 1;
  return request;
}

// What one prompt alone lacks room for costs the others nothing. Whatever else
// is wrong is a mistake of who asks, to be mended before anything runs.
Result<std::optional<Error>> GenerateRun::RefusalOf(size_t index) const {
  const Status status = engine_->Check(RequestOf(index));
  if (status.ok()) return std::optional<Error>();
  const bool is_alone = texts_.size() == 1;
  Error error = MakeError(
      status.error().code, "{}{}: {}", texts_[index].origin,
      is_alone ? std::string()
               : fmt::format(", prompt {} of {}", index + 1, texts_.size()),
      status.error().message);
  if (is_alone || error.code != ErrorCode::kResourceExhausted) return error;
  return std::optional<Error>(std::move(error));
}

Status GenerateRun::AddRequests() {
  held_.resize(prompts_.size());
  std::vector<std::optional<Error>> refusals;
  std::vector<int> sizes;
  for (size_t i = 0; i < prompts_.size(); ++i) {
    ASSIGN_OR_RETURN(refusals.emplace_back(), RefusalOf(i));
    sizes.push_back(refusals[i] ? 0 : static_cast<int>(prompts_[i].size()));
  }
  batch_ = std::make_unique<BatchProgress>(std::move(sizes));
  reading_ = std::make_unique<Progress>(
      fmt::format("reading {} tokens",
                  FormatCount(batch_->num_prompt_tokens())),
      !flags_.engine.quiet);
  for (size_t i = 0; i < prompts_.size(); ++i) {
    ASSIGN_OR_RETURN(StopMatcher stops, StopMatcher::Create(flags_.stop));
    Detokenizer detokenizer(*loaded_.tokenizer, /*skip_special_tokens=*/true);
    // A chat's answer begins a text.
    if (texts_[i].kind != Prompt::Kind::kChat) {
      RETURN_IF_ERROR(detokenizer.Follow(prompts_[i]));
    }
    generations_.push_back(std::make_unique<Generation>(
        AnswerText(std::move(detokenizer), std::move(stops)),
        [this, i](std::string_view text) { ShowText(i, text); }, *batch_, i));
    if (refusals[i]) {
      Completion refused;
      refused.reason = FinishReason::kError;
      refused.error = std::move(refusals[i]);
      refused.num_prompt_tokens = static_cast<int>(prompts_[i].size());
      generations_.back()->OnFinish(refused);
      continue;
    }
    ASSIGN_OR_RETURN(ids_.emplace_back(),
                     engine_->Add(RequestOf(i), generations_.back().get()));
  }
  return Ok{};
}

Result<bool> GenerateRun::RunToTheEnd() {
  while (true) {
    if (interrupt_.Requested()) {
      for (const SequenceId id : ids_) engine_->Cancel(id);
      ShowEnded();
      return false;
    }
    const Clock::time_point begin = Clock::now();
    ASSIGN_OR_RETURN(const bool more, engine_->Step());
    batch_->EndStep(
        std::chrono::duration<double>(Clock::now() - begin).count());
    if (!more) return true;
    if (batch_->num_read() < batch_->num_prompt_tokens()) {
      reading_->Update(batch_->num_read(), batch_->num_prompt_tokens());
    } else {
      reading_->End();
    }
    ShowEnded();
    // A reader may leave with the last line.
    RETURN_IF_ERROR(shown_ < generations_.size() ? CheckOutputIsRead()
                                                 : FlushOutput());
  }
}

void GenerateRun::ShowText(size_t index, std::string_view text) {
  if (!streams_text_) return;
  if (index != shown_) {
    held_[index] += text;
    return;
  }
  // The line would be written over the text.
  if (streams_to_terminal_) reading_->End();
  Print(text);
  std::fflush(stdout);
}

void GenerateRun::ShowEnded() {
  while (shown_ < generations_.size() && generations_[shown_]->finished()) {
    if (streams_text_) {
      Print("\n");
      std::fflush(stdout);
    }
    ++shown_;
    if (shown_ < generations_.size()) {
      const std::string text = std::move(held_[shown_]);
      ShowText(shown_, text);
    }
  }
}

// "4 MiB, 12 MiB on the host, 93.0 % of 1,204 picks near, 3 MiB fetched".
std::string KvText(const KvUse& use) {
  std::string text = FormatBytes(use.device_bytes);
  if (use.host_bytes > 0) {
    text += fmt::format(", {} on the host", FormatBytes(use.host_bytes));
  }
  const std::string picks = PicksText(use);
  return picks.empty() ? text : text + ", " + picks;
}

void GenerateRun::PrintClosingLine() const {
  if (flags_.engine.quiet) return;
  int64_t generated_tokens = 0;
  KvUse use;
  for (const auto& generation : generations_) {
    generated_tokens += generation->completion().num_generated_tokens;
    use.Add(generation->completion());
  }
  const auto rate = [](int64_t count, double in_seconds) {
    return count > 0 && in_seconds > 0
               ? FormatCount(static_cast<int64_t>(
                     static_cast<double>(count) / in_seconds + 0.5))
               : std::string("-");
  };
  std::fprintf(
      stderr,
      "prompt %s tokens, %s tokens/s; generated %s, %s tokens/s; KV %s; "
      "loaded in %s\n",
      FormatCount(use.prompt_tokens).c_str(),
      rate(batch_->num_read() - use.cached_tokens, batch_->reading_seconds())
          .c_str(),
      FormatCount(generated_tokens).c_str(),
      rate(batch_->num_generated(), batch_->generating_seconds()).c_str(),
      KvText(use).c_str(), FormatSeconds(loaded_.load_ms / 1000).c_str());
}

Status GenerateRun::WriteLines() const {
  std::string lines;
  for (const auto& generation : generations_) {
    const GenerationRecord record = {
        .text = generation->text(),
        .tokens = generation->tokens(),
        .completion = generation->completion(),
        .with_logprobs = flags_.logprobs.has_value(),
        .load_ms = loaded_.load_ms};
    lines += ToJsonLine(record) + "\n";
  }
  return WriteJson(flags_.engine, lines);
}

Result<int> GenerateRun::Run() {
  ASSIGN_OR_RETURN(
      loaded_,
      OpenModel(flags_.engine, {.has_identity = KeepsKv(flags_.kv_disk)}));
  RETURN_IF_ERROR(EncodePrompts());
  interrupt_.Hold();
  RETURN_IF_ERROR(MakeEngine());
  RETURN_IF_ERROR(AddRequests());
  ASSIGN_OR_RETURN(const bool ended, RunToTheEnd());
  reading_->End();
  if (flags_.engine.json) RETURN_IF_ERROR(WriteLines());
  PrintClosingLine();
  if (!flags_.engine.quiet) PrintDiskFailures(*engine_);
  std::optional<Error> last;
  for (const auto& generation : generations_) {
    const std::optional<Error>& error = generation->completion().error;
    if (!error) continue;
    if (last) PrintError(last->message);
    last = error;
  }
  if (last) return *last;
  return ended ? 0 : kInterruptedStatus;
}

// All that is wrong with the command line whatever the checkpoint: nobody is
// to wait for one first.
Status CheckFlags(const GenerateFlags& flags) {
  if (flags.prompts.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "generate needs --prompt, --prompt-file or --chat, got "
                     "none");
  }
  if (flags.logprobs && !flags.engine.json) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--logprobs needs --json, which holds them, got none");
  }
  RETURN_IF_ERROR(CheckEngineFlags(flags.engine, {flags.engine.select}));
  ASSIGN_OR_RETURN(const EngineOptions options,
                   ParseEngineOptions(flags.engine));
  if (options.max_model_len > 0 &&
      flags.max_tokens.value_or(0) > options.max_model_len) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--max-tokens must be at most --max-model-len ({}), is {}",
                     options.max_model_len, *flags.max_tokens);
  }
  RETURN_IF_ERROR(KvDiskBytes(flags.kv_disk));
  RETURN_IF_ERROR(StopMatcher::Create(flags.stop));
  return Ok{};
}

}  // namespace

Result<int> RunGenerate(const GenerateFlags& flags) {
  RETURN_IF_ERROR(CheckFlags(flags));
  std::vector<PromptText> texts;
  for (const Prompt& prompt : flags.prompts) {
    ASSIGN_OR_RETURN(PromptText text, ReadPrompt(prompt));
    texts.push_back(std::move(text));
  }
  RETURN_IF_ERROR(CheckJsonFile(flags.engine));
  return GenerateRun(flags, std::move(texts)).Run();
}

}  // namespace winnow
