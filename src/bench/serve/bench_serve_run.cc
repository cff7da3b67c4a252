#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "bench/serve/bench_serve.h"
#include "bench/serve/bench_serve_picture.h"
#include "bench/serve/bench_serve_prompts.h"
#include "bench/serve/bench_serve_report.h"
#include "cli/command/interrupt.h"
#include "cli/command/output.h"
#include "cli/command/progress.h"
#include "load/random_words.h"
#include "load/replay_trace.h"
#include "model/config/json_fields.h"
#include "serve/answer/json_text.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDefaultRandomPrompts = 1000;
constexpr int kStatusOk = 200;
constexpr int kStatusUnauthorized = 401;
// Of the two prompts that are counted before a run of random words.
constexpr size_t kFewWords = 16, kManyWords = 144;

Error WrongFlag(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

// One command's work.
class ServeBench {
 public:
  explicit ServeBench(const BenchServeFlags& flags) : flags_(flags) {}

  Result<int> Run();

 private:
  Status CheckFlags();
  Status CheckDataset() const;
  Status SetTarget();
  Status AddHeaders();
  Status ReadExtraBody();
  Status ReadPrompts();
  Status FindModel();
  Status ReadTracedRequests();
  Status MakeRandomPrompts();
  Result<WordTokens> CountWordTokens();
  Result<int64_t> CountPromptTokens(const std::string& prompt);
  Json BodyOf(const ServePrompt& prompt) const;
  std::vector<LoadRequest> MakeRequests() const;
  Result<LoadResult> RunLoad();
  ServeAnswers CheckAnswers(const std::vector<LoadOutcome>& outcomes) const;
  Status Report(const LoadResult& result) const;

  const BenchServeFlags& flags_;
  Interrupt interrupt_;  // before any thread
  LoadTarget target_;
  MatchRule match_ = MatchRule::kContains;
  ServeMetrics metrics_;
  Json extra_body_;
  std::string model_;
  std::vector<ServePrompt> prompts_;
  std::vector<TracedRequest> trace_;
  size_t num_prompts_ = 0;         // prompts_, over again
  std::shared_ptr<LoadRun> load_;  // with who hears of a signal
};

Status ServeBench::CheckFlags() {
  ASSIGN_OR_RETURN(match_, ParseMatchRule(flags_.match));
  ASSIGN_OR_RETURN(metrics_, ParseServeMetrics(flags_.percentile_metrics,
                                               flags_.metric_percentiles));
  if (flags_.no_stream && (flags_.goals.ttft_ms || flags_.goals.tpot_ms)) {
    return WrongFlag(
        "--goodput of ttft and tpot needs a stream, not "
        "--no-stream");
  }
  if (flags_.save_detailed && !flags_.engine.json) {
    return WrongFlag("--save-detailed needs --json");
  }
  RETURN_IF_ERROR(CheckDataset());
  RETURN_IF_ERROR(SetTarget());
  RETURN_IF_ERROR(AddHeaders());
  RETURN_IF_ERROR(ReadExtraBody());
  if (!flags_.svg_file.empty()) RETURN_IF_ERROR(CheckCanWrite(flags_.svg_file));
  return CheckJsonFile(flags_.engine);
}

Status ServeBench::CheckDataset() const {
  const std::string& name = flags_.dataset_name;
  const size_t num_files = flags_.dataset_paths.size();
  if (name == "random" && num_files > 0) {
    return WrongFlag("--dataset-name random reads no --dataset-path");
  }
  if ((name == "tasks" || name == "trace") && num_files == 0) {
    return WrongFlag(
        fmt::format("--dataset-name {} needs --dataset-path FILE", name));
  }
  if (name != "trace") return Ok{};
  if (num_files > 1) {
    return WrongFlag("--dataset-name trace reads one --dataset-path");
  }
  if (flags_.request_rate_given || flags_.arrivals.burstiness != 1) {
    return WrongFlag(
        "--request-rate and --burstiness are not for a trace, "
        "which has its own times (--trace-speed)");
  }
  return Ok{};
}

Status ServeBench::SetTarget() {
  target_.url = {.host = flags_.host, .port = flags_.port};
  if (!flags_.base_url.empty()) {
    Result<ServerUrl> url = ParseServerUrl(flags_.base_url);
    if (!url.ok()) return WrongFlag("--base-url " + url.error().message);
    target_.url = *std::move(url);
  }
  const bool chats = flags_.backend == "openai-chat" ||
                     (flags_.backend.empty() &&
                      flags_.endpoint.ends_with("/chat/completions"));
  target_.style = chats ? AnswerStyle::kChat : AnswerStyle::kCompletion;
  target_.endpoint = !flags_.endpoint.empty() ? flags_.endpoint
                     : chats                  ? "/v1/chat/completions"
                                              : "/v1/completions";
  if (!target_.endpoint.starts_with('/')) {
    return WrongFlag(fmt::format("--endpoint must begin with /, is \"{}\"",
                                 target_.endpoint));
  }
  // Clients of OpenAI's have the version in the base.
  std::string& path = target_.url.path;
  if (path.ends_with("/v1") && target_.endpoint.starts_with("/v1/")) {
    path.resize(path.size() - 3);
  }
  target_.streams = !flags_.no_stream;
  target_.timeout = std::chrono::seconds(flags_.timeout_s);
  return Ok{};
}

Status ServeBench::AddHeaders() {
  const char* key = std::getenv("OPENAI_API_KEY");
  const std::string api_key =
      flags_.api_key.empty() && key != nullptr ? key : flags_.api_key;
  if (!api_key.empty()) {
    target_.headers.emplace_back("Authorization", "Bearer " + api_key);
  }
  for (const std::string& header : flags_.headers) {
    const size_t equals = header.find('=');
    if (equals == std::string::npos || equals == 0) {
      return WrongFlag(
          fmt::format("--header must be NAME=VALUE, is \"{}\"", header));
    }
    target_.headers.emplace_back(header.substr(0, equals),
                                 header.substr(equals + 1));
  }
  for (const auto& [name, value] : target_.headers) {
    for (const char c : name + value) {
      if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) continue;
      return WrongFlag(
          "--header and --api-key must be without control "
          "characters");
    }
  }
  return Ok{};
}

Status ServeBench::ReadExtraBody() {
  extra_body_ = Json::object();
  if (flags_.extra_body.empty()) return Ok{};
  extra_body_ = Json::parse(flags_.extra_body, nullptr, false);
  if (extra_body_.is_object()) return Ok{};
  return WrongFlag(fmt::format("--extra-body must be a JSON object, is \"{}\"",
                               flags_.extra_body));
}

Status ServeBench::ReadTracedRequests() {
  constexpr size_t kMaxTraceBytes = size_t{1} << 30;
  const std::string& path = flags_.dataset_paths.front();
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxTraceBytes));
  ASSIGN_OR_RETURN(trace_, ReadTrace(text, path));
  const auto most = static_cast<int64_t>(trace_.size());
  if (flags_.num_prompts.value_or(1) > most) {
    return WrongFlag(
        fmt::format("--num-prompts must be at most {}, the requests of {}, is "
                    "{}",
                    most, path, *flags_.num_prompts));
  }
  return Ok{};
}

Status ServeBench::ReadPrompts() {
  if (flags_.dataset_name == "trace") {
    RETURN_IF_ERROR(ReadTracedRequests());
  } else if (!flags_.dataset_paths.empty()) {
    ASSIGN_OR_RETURN(prompts_, ReadTaskPrompts(flags_.dataset_paths, match_,
                                               flags_.output_len));
  }
  const size_t all = !trace_.empty()    ? trace_.size()
                     : prompts_.empty() ? size_t{kDefaultRandomPrompts}
                                        : prompts_.size();
  num_prompts_ =
      flags_.num_prompts ? static_cast<size_t>(*flags_.num_prompts) : all;
  return Ok{};
}

// The server's own name for it, unless one is given.
Status ServeBench::FindModel() {
  model_ = flags_.model;
  if (!model_.empty()) return Ok{};
  std::string models = target_.endpoint;
  for (const char* end : {"/completions", "/chat"}) {
    if (models.ends_with(end)) models.resize(models.size() - strlen(end));
  }
  models += "/models";
  ASSIGN_OR_RETURN(const LoadRun::Answer answer,
                   load_->Ask("GET", models, /*body=*/""));
  if (answer.status == kStatusUnauthorized) {
    return MakeError(ErrorCode::kIo,
                     "{}: status 401: {} (--api-key, or OPENAI_API_KEY)",
                     HostAndPort(target_.url), ErrorWords(answer.body));
  }
  model_ = answer.status == kStatusOk ? FirstModelName(answer.body) : "";
  if (!model_.empty()) return Ok{};
  return MakeError(ErrorCode::kIo,
                   "{}{}: status {}, and no list of models: --model names one",
                   HostAndPort(target_.url), models, answer.status);
}

Json ServeBench::BodyOf(const ServePrompt& prompt) const {
  Json body = {{"model", model_}};
  if (target_.style == AnswerStyle::kChat) {
    body["messages"] =
        Json::array({{{"role", "user"}, {"content", prompt.text}}});
  } else {
    body["prompt"] = prompt.text;
  }
  body["max_tokens"] = prompt.max_tokens;
  body["temperature"] = flags_.temperature.value_or(0);
  if (target_.streams) {
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
  }
  if (flags_.ignore_eos) body["ignore_eos"] = true;
  body.update(extra_body_);
  return body;
}

Result<int64_t> ServeBench::CountPromptTokens(const std::string& prompt) {
  Json body = BodyOf({.text = prompt, .max_tokens = 1});
  body.erase("stream");
  body.erase("stream_options");
  ASSIGN_OR_RETURN(const LoadRun::Answer answer,
                   load_->Ask("POST", target_.endpoint, DumpJson(body)));
  const std::string where = HostAndPort(target_.url) + target_.endpoint;
  if (answer.status != kStatusOk) {
    return MakeError(ErrorCode::kIo, "{}: status {}: {}", where, answer.status,
                     ErrorWords(answer.body));
  }
  ASSIGN_OR_RETURN(
      const AnswerPiece piece,
      ReadAnswerPiece(target_.style, /*streamed=*/false, answer.body));
  if (piece.prompt_tokens && *piece.prompt_tokens > 0) {
    return *piece.prompt_tokens;
  }
  return MakeError(ErrorCode::kIo,
                   "{}: tells no usage.prompt_tokens, so nobody can say how "
                   "long random words are",
                   where);
}

Result<WordTokens> ServeBench::CountWordTokens() {
  const uint64_t seed = flags_.engine.seed;
  ASSIGN_OR_RETURN(const int64_t few,
                   CountPromptTokens(RandomWords(kFewWords, seed + 1)));
  ASSIGN_OR_RETURN(const int64_t many,
                   CountPromptTokens(RandomWords(kManyWords, seed)));
  WordTokens tokens;
  tokens.per_word = std::max(
      0.1, static_cast<double>(many - few) / double{kManyWords - kFewWords});
  tokens.besides =
      std::max(0.0, static_cast<double>(few) - tokens.per_word * kFewWords);
  return tokens;
}

Status ServeBench::MakeRandomPrompts() {
  if (!prompts_.empty()) return Ok{};
  ASSIGN_OR_RETURN(const WordTokens tokens, CountWordTokens());
  for (size_t i = 0; i < num_prompts_; ++i) {
    if (trace_.empty()) {
      prompts_.push_back(RandomPrompt(flags_.random_input_len,
                                      flags_.random_output_len, tokens,
                                      flags_.engine.seed, i));
    } else {
      prompts_.push_back(
          TracedPrompt(trace_[i], tokens, flags_.engine.seed, i));
    }
    if (flags_.output_len) prompts_.back().max_tokens = *flags_.output_len;
  }
  return Ok{};
}

std::vector<LoadRequest> ServeBench::MakeRequests() const {
  const std::vector<double> times =
      ArrivalTimes(flags_.arrivals, num_prompts_, flags_.engine.seed);
  std::vector<LoadRequest> requests;
  requests.reserve(num_prompts_);
  for (size_t i = 0; i < num_prompts_; ++i) {
    const double due_s = trace_.empty()
                             ? times[i]
                             : trace_[i].due_ms / 1000 / flags_.trace_speed;
    requests.push_back(
        {.due_s = due_s,
         .body = DumpJson(BodyOf(prompts_[i % prompts_.size()]))});
  }
  return requests;
}

Result<LoadResult> ServeBench::RunLoad() {
  std::vector<LoadRequest> requests = MakeRequests();
  Progress progress(
      fmt::format("{} requests",
                  FormatCount(static_cast<int64_t>(num_prompts_))),
      !flags_.engine.quiet);
  interrupt_.Hold([load = load_] { load->Stop(); });
  return load_->Run(std::move(requests), [&](const LoadCounts& counts) {
    const size_t ended = counts.answered + counts.failed;
    progress.Update(static_cast<int64_t>(ended),
                    static_cast<int64_t>(num_prompts_),
                    fmt::format("; {} under way, {} failed",
                                counts.sent - ended, counts.failed));
  });
}

ServeAnswers ServeBench::CheckAnswers(
    const std::vector<LoadOutcome>& outcomes) const {
  ServeAnswers answers;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const ServePrompt& prompt = prompts_[i % prompts_.size()];
    if (prompt.matcher == nullptr || !outcomes[i].answered()) continue;
    ++answers.checked;
    const Result<bool> right = prompt.matcher->Matches(outcomes[i].text);
    if (right.ok() && *right) {
      ++answers.right;
    } else if (answers.wrong.empty()) {
      answers.wrong =
          fmt::format("request {}: \"{}\"", i + 1,
                      Printable(CollapseWhiteSpace(outcomes[i].text)));
    }
  }
  return answers;
}

Status ServeBench::Report(const LoadResult& result) const {
  const bool chats = target_.style == AnswerStyle::kChat;
  const ServeReport report = {
      .flags = flags_,
      .model = model_,
      .address = HostAndPort(target_.url) + target_.url.path + target_.endpoint,
      .backend = chats ? "openai-chat" : "openai",
      .num_prompts = num_prompts_,
      .metrics = metrics_,
      .figures = MakeLoadFigures(result, flags_.goals),
      .answers = CheckAnswers(result.outcomes)};
  const EngineFlags& engine = flags_.engine;
  if (!engine.json || !engine.json_file.empty()) Print(ServeTable(report));
  if (engine.json) {
    Json json = ServeJson(report);
    if (flags_.save_detailed) {
      json["requests"] = ServeRequestsJson(result.outcomes);
    }
    const int indent =
        engine.json_file.empty() || flags_.save_detailed ? -1 : 2;
    RETURN_IF_ERROR(WriteJson(
        engine,
        json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n"));
  }
  if (!flags_.svg_file.empty()) {
    const std::string title = fmt::format("{} at {}", model_, report.address);
    RETURN_IF_ERROR(WriteFile(flags_.svg_file,
                              ServePicture(title, result, report.figures)));
  }
  return FlushOutput();
}

Result<int> ServeBench::Run() {
  RETURN_IF_ERROR(CheckFlags());
  RETURN_IF_ERROR(ReadPrompts());
  ASSIGN_OR_RETURN(
      load_, LoadRun::Create({.target = target_,
                              .max_concurrency = flags_.max_concurrency}));
  RETURN_IF_ERROR(FindModel());
  RETURN_IF_ERROR(MakeRandomPrompts());
  ASSIGN_OR_RETURN(const LoadResult result, RunLoad());
  RETURN_IF_ERROR(Report(result));
  if (interrupt_.Requested()) return kInterruptedStatus;
  const bool any = std::ranges::any_of(result.outcomes, &LoadOutcome::answered);
  return any ? 0 : 1;
}

}  // namespace

Result<int> RunBenchServe(const BenchServeFlags& flags) {
  return ServeBench(flags).Run();
}

}  // namespace winnow
