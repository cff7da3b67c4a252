#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "backend/contract/summary_table.h"
#include "base/file.h"
#include "base/size_text.h"
#include "cli/command/end_tokens.h"
#include "cli/command/interrupt.h"
#include "cli/command/loaded_model.h"
#include "cli/command/output.h"
#include "cli/command/progress.h"
#include "cli/eval/eval_answer.h"
#include "cli/simulate/trace.h"
#include "cli/task/written_file.h"
#include "simulate/select_recorder.h"
#include "simulate/trace_file.h"
#include "sparse/spec/selector.h"

namespace winnow {
namespace {

// Hears of a text that questions follow.
struct PrefixReader : RequestObserver {
  void OnPrefill(int, int) override {}
  bool OnToken(const GeneratedToken&) override { return true; }
  void OnFinish(const Completion&) override {}
};

// One command's work: questions one after the other, so that what is recorded
// is one request's.
class TraceRun {
 public:
  explicit TraceRun(const TraceFlags& flags) : flags_(flags) {}

  Result<int> Run();

 private:
  Status CheckFlags();
  int MaxModelLen() const;
  Status MakeSelectorAndPlan();
  TraceHeader Header() const;
  Status MakeEngine();
  Status RecordGroup(const EvalGroup& group, Progress& progress);
  Status RecordQuestion(const EvalGroup& group, const EvalQuestion& question,
                        std::optional<SequenceId> prefix);
  void PrintClosingLine(double seconds) const;

  const TraceFlags& flags_;
  EngineFlags engine_flags_;
  Interrupt interrupt_;  // before any thread
  std::vector<int> levels_;
  LoadedModel loaded_;
  EngineOptions options_;
  Selector selector_;
  EvalPlan plan_;
  SelectRecorder* recorder_ = nullptr;  // loaded_'s backend
  std::unique_ptr<Engine> engine_;
  std::optional<TraceWriter> writer_;
  int64_t num_rows_ = 0;
  int num_right_ = 0, num_done_ = 0;
};

Status TraceRun::CheckFlags() {
  ASSIGN_OR_RETURN(levels_, ParseLevels(flags_.levels));
  engine_flags_ = flags_.engine;
  if (engine_flags_.device == "auto") engine_flags_.device = "cpu";
  if (engine_flags_.device.starts_with("cuda")) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--device must be auto or cpu here (lists are read where "
                     "they lie), is \"{}\"",
                     engine_flags_.device);
  }
  RETURN_IF_ERROR(CheckEngineFlags(engine_flags_, {engine_flags_.select}));
  ASSIGN_OR_RETURN(options_, ParseEngineOptions(engine_flags_));
  RETURN_IF_ERROR(CheckIsNoTaskFile("--out", flags_.out));
  for (const std::string& file : flags_.tasks.files) {
    RETURN_IF_ERROR(CheckAreTwoFiles("--out", flags_.out, "FILE", file));
  }
  return CheckCanWrite(flags_.out);
}

int TraceRun::MaxModelLen() const {
  if (options_.max_model_len > 0) return options_.max_model_len;
  return static_cast<int>(
      std::min<int64_t>(loaded_.model->config().max_context_tokens, INT32_MAX));
}

Status TraceRun::MakeSelectorAndPlan() {
  const ModelConfig& config = loaded_.model->config();
  ASSIGN_OR_RETURN(const std::string spec,
                   ResolveSelect(engine_flags_.select, config.native_selector));
  ASSIGN_OR_RETURN(
      selector_,
      MakeSelector(spec, SelectorShapeOf(*loaded_.model, MaxModelLen())));
  if (selector_.is_dense()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--select must name a selector that chooses in some "
                     "layer, is \"{}\"",
                     spec);
  }
  options_.selectors = {spec};
  ASSIGN_OR_RETURN(plan_, ReadEvalPlan(flags_.tasks.files, *loaded_.tokenizer,
                                       {.max_model_len = MaxModelLen(),
                                        .vocab_size = config.vocab_size,
                                        .max_tokens = flags_.tasks.max_tokens,
                                        .limit = flags_.tasks.limit,
                                        .skip_bad = flags_.tasks.skip_bad}));
  for (const std::string& why : plan_.skipped) {
    if (!flags_.engine.quiet) PrintError("skipped: " + why);
  }
  return Ok{};
}

TraceHeader TraceRun::Header() const {
  const ModelConfig& config = loaded_.model->config();
  TraceHeader header;
  header.model = std::filesystem::weakly_canonical(flags_.engine.model)
                     .filename()
                     .string();
  header.select = options_.selectors[0];
  header.num_q_heads = config.num_q_heads;
  header.num_kv_heads = config.num_kv_heads;
  header.head_dim = config.head_dim;
  header.kv_element_bytes =
      static_cast<int>(DtypeBytes(loaded_.model->dtypes().kv));
  const SummaryLayout layout =
      MakeSummaryLayout(selector_.program, config.head_dim, config.head_dim);
  header.summary_bytes =
      layout.head_bytes * kSegmentTokens / layout.segment_tokens;
  for (int layer = 0; layer < config.num_layers; ++layer) {
    header.chooses.push_back(selector_.ForLayer(layer) != nullptr);
  }
  header.levels = levels_;
  return header;
}

Status TraceRun::MakeEngine() {
  options_.max_num_seqs = 1;
  options_.prefix_caching = false;
  int64_t num_pages = 0;
  for (const EvalGroup& group : plan_.groups) {
    num_pages =
        std::max(num_pages, PrefixPages(group) + 2 * AnswerPages(group));
  }
  options_.device_kv_bytes = KvBytesFor(loaded_, num_pages);
  const TraceHeader header = Header();
  writer_.emplace(header);
  auto recorder = std::make_unique<SelectRecorder>(std::move(loaded_.backend),
                                                   header, MaxModelLen());
  recorder_ = recorder.get();
  loaded_.backend = std::move(recorder);
  ASSIGN_OR_RETURN(engine_,
                   Engine::Create(*loaded_.backend, *loaded_.model, options_));
  return Ok{};
}

Status TraceRun::RecordQuestion(const EvalGroup& group,
                                const EvalQuestion& question,
                                std::optional<SequenceId> prefix) {
  const std::string origin =
      fmt::format("{}:{}", plan_.files[static_cast<size_t>(question.file)].path,
                  question.line);
  EvalAnswer answer(group, question, *loaded_.tokenizer,
                    EndTokenIds(loaded_.model->config(), *loaded_.tokenizer));
  Request request = *answer.NextRequest();
  request.prefix = prefix;
  request.selector = 0;
  recorder_->Begin();
  const Result<SequenceId> id = engine_->Add(std::move(request), &answer);
  if (!id.ok()) {
    return MakeError(id.error().code, "{}: {}", origin, id.error().message);
  }
  while (answer.running()) {
    ASSIGN_OR_RETURN(const bool more, engine_->Step());
    CHECK(more || !answer.running(), "{} has nothing to run", origin);
  }
  if (answer.error()) {
    return MakeError(answer.error()->code, "{}: {}", origin,
                     answer.error()->message);
  }
  TraceRequest traced = recorder_->Take();
  traced.task = question.task;
  traced.origin = origin;
  traced.answered_right = answer.outcome().exact;
  num_right_ += traced.answered_right ? 1 : 0;
  num_rows_ += traced.num_rows();
  writer_->Add(traced);
  return Ok{};
}

Status TraceRun::RecordGroup(const EvalGroup& group, Progress& progress) {
  PrefixReader reader;
  std::optional<SequenceId> prefix;
  if (!group.prefix.empty()) {
    const int selector = BelongsToPrompt(selector_.program) ? 0 : -1;
    ASSIGN_OR_RETURN(prefix,
                     engine_->AddPrefix({.tokens = group.prefix,
                                         .max_length = group.MaxLength(),
                                         .selector = selector},
                                        &reader));
  }
  // Ends the prefix while its observer lives.
  struct Release {
    Engine& engine;
    std::optional<SequenceId> id;
    ~Release() {
      if (id) engine.Cancel(*id);
    }
  } release{*engine_, prefix};
  for (const EvalQuestion& question : group.questions) {
    RETURN_IF_ERROR(RecordQuestion(group, question, prefix));
    progress.Update(++num_done_, plan_.num_questions());
  }
  return Ok{};
}

void TraceRun::PrintClosingLine(double seconds) const {
  if (flags_.engine.quiet) return;
  std::fprintf(stderr,
               "%s rows of %s questions, %s answered right, in %s; %s: %s\n",
               FormatCount(num_rows_).c_str(),
               FormatCount(writer_->num_requests()).c_str(),
               FormatCount(num_right_).c_str(), FormatSeconds(seconds).c_str(),
               flags_.out.c_str(), FormatBytes(writer_->num_bytes()).c_str());
}

Result<int> TraceRun::Run() {
  RETURN_IF_ERROR(CheckFlags());
  ASSIGN_OR_RETURN(loaded_, OpenModel(engine_flags_));
  RETURN_IF_ERROR(MakeSelectorAndPlan());
  RETURN_IF_ERROR(MakeEngine());
  const auto start = std::chrono::steady_clock::now();
  Progress progress(
      fmt::format("{} questions", FormatCount(plan_.num_questions())),
      !flags_.engine.quiet);
  for (const EvalGroup& group : plan_.groups) {
    RETURN_IF_ERROR(RecordGroup(group, progress));
  }
  progress.Clear();
  RETURN_IF_ERROR(writer_->Write(flags_.out));
  const std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - start;
  PrintClosingLine(elapsed.count());
  return 0;
}

}  // namespace

Result<int> RunTrace(const TraceFlags& flags) { return TraceRun(flags).Run(); }

}  // namespace winnow
