#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>

#include "base/file.h"
#include "base/memory_reserve.h"
#include "base/size_text.h"
#include "cli/command/end_tokens.h"
#include "cli/command/exit_deadline.h"
#include "cli/command/file_fault.h"
#include "cli/command/flag_value.h"
#include "cli/command/interrupt.h"
#include "cli/command/loaded_model.h"
#include "cli/command/progress.h"
#include "cli/serve/connection_limit.h"
#include "cli/serve/schedule_trace_file.h"
#include "cli/serve/serve.h"
#include "serve/api/http_api.h"
#include "serve/http/allowed_origin.h"
#include "serve/http/http_server.h"

namespace winnow {
namespace {

constexpr int kMaxHttpThreads = 4;
// Rows of a prompt whose logits are there at once: a product of so many costs
// about as much a row as one of more.
constexpr int kMaxScoredRows = 64;
// For those who wait for an answer when no step can run any more.
constexpr std::chrono::seconds kTimeToTell{2};
// For what is on its way to a disk when all is told; one that never answers is
// left behind. What is half written then is a miss, as where power fails.
constexpr std::chrono::seconds kTimeToEnd{2};
constexpr size_t kMaxTemplateBytes = size_t{4} << 20;

// Waits for what ends a server: a signal, or the device's failure.
class EndOfService {
 public:
  void Ask() {
    Tell([this] { asked_ = true; });
  }
  void Fail(const Error& error) {
    Tell([&] { failure_ = error; });
  }
  // The failure, if that is why.
  std::optional<Error> Await() {
    std::unique_lock lock(mutex_);
    told_.wait(lock, [this] { return asked_ || failure_; });
    return failure_;
  }

 private:
  template <typename Set>
  void Tell(const Set& set) {
    const std::scoped_lock lock(mutex_);
    set();
    told_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable told_;
  bool asked_ = false;
  std::optional<Error> failure_;
};

// One command's work. What is declared later is used by nothing earlier, so
// that all ends in order: connections first, then the loop, then the model.
class ServeRun {
 public:
  explicit ServeRun(const ServeFlags& flags) : flags_(flags) {}

  Result<int> Run();

 private:
  Result<HttpLimits> Limits() const;
  Result<GrammarLimits> GrammarLimitsOf() const;
  Status ReadChatTemplate();
  void OpenLog();
  Status MakeEngine();
  // But for the model.
  Result<ServiceOptions> ServiceLimits() const;
  ApiOptions MakeApiOptions(ServiceOptions service) const;
  void WarnOfFlags() const;
  void WarnOfTemplates() const;
  void PrintAddress() const;
  void StartLoop();
  // Behind the last answer.
  void FinishDisk();

  const ServeFlags& flags_;
  ExitDeadline exit_deadline_;
  std::string api_key_;
  std::vector<std::string> allowed_origins_;
  std::vector<std::string> model_names_;
  std::vector<std::pair<std::string, int>> selects_;
  EndOfService end_;
  Interrupt interrupt_;  // before any thread
  LoadedModel loaded_;
  std::unique_ptr<ScheduleTraceFile> scheduler_trace_;  // null: none
  std::optional<ChatTemplate> chat_template_;
  int max_model_len_ = 0;
  std::unique_ptr<Engine> engine_;  // until the loop has it
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<RequestLog> log_;  // null: none is wanted
  std::unique_ptr<EngineLoop> loop_;
  std::unique_ptr<HttpApi> api_;
  std::unique_ptr<HttpServer> server_;
};

Result<HttpLimits> ServeRun::Limits() const {
  HttpLimits limits;
  ASSIGN_OR_RETURN(limits.max_body_bytes,
                   SizeOf("--max-body-size", flags_.max_body_size));
  limits.max_bodies_bytes = 8 * std::min(limits.max_body_bytes, INT64_MAX / 8);
  if (!flags_.max_bodies_size.empty()) {
    ASSIGN_OR_RETURN(limits.max_bodies_bytes,
                     SizeOf("--max-bodies-size", flags_.max_bodies_size));
  }
  if (limits.max_bodies_bytes < limits.max_body_bytes) {
    return MakeError(
        ErrorCode::kInvalidArgument,
        "--max-bodies-size must be at least --max-body-size (\"{}\")"
        ", is \"{}\"",
        flags_.max_body_size, flags_.max_bodies_size);
  }
  limits.max_header_bytes = flags_.max_header_bytes;
  ASSIGN_OR_RETURN(
      limits.max_connections,
      AllowConnections(flags_.max_connections, flags_.engine.quiet));
  limits.header_time = std::chrono::seconds(flags_.header_timeout_s);
  limits.idle_time = limits.body_time =
      std::chrono::seconds(flags_.idle_timeout_s);
  limits.write_time = std::chrono::seconds(flags_.write_timeout_s);
  limits.request_time = std::chrono::duration<double>(flags_.request_timeout_s);
  return limits;
}

Result<GrammarLimits> ServeRun::GrammarLimitsOf() const {
  ASSIGN_OR_RETURN(const int64_t size,
                   SizeOf("--max-grammar-size", flags_.max_grammar_size));
  GrammarLimits limits;
  limits.max_bytes = static_cast<size_t>(size);
  limits.max_states = static_cast<size_t>(flags_.max_grammar_states);
  limits.max_mask_us = 1000 * static_cast<uint64_t>(flags_.max_grammar_ms);
  return limits;
}

Status ServeRun::ReadChatTemplate() {
  const std::filesystem::path folder = flags_.engine.model;
  if (flags_.chat_template.empty()) {
    Result<ChatTemplate> own = ChatTemplate::Load(folder);
    if (own.ok()) {
      chat_template_ = *std::move(own);
    } else if (own.error().code != ErrorCode::kNotFound) {
      return FromFiles(Status(own.error())).error();
    }
    return Ok{};
  }
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(flags_.chat_template, kMaxTemplateBytes));
  ChatTemplateFiles files = {.chat_template_jinja = text};
  const auto read =
      [&](const char* name) -> Result<std::optional<std::string>> {
    const auto path = folder / name;
    if (!std::filesystem::exists(path)) return std::optional<std::string>();
    ASSIGN_OR_RETURN(std::string content, ReadFile(path, kMaxTemplateBytes));
    return std::optional(std::move(content));
  };
  ASSIGN_OR_RETURN(files.tokenizer_config_json, read("tokenizer_config.json"));
  ASSIGN_OR_RETURN(files.special_tokens_map_json,
                   read("special_tokens_map.json"));
  Result<ChatTemplate> given = ChatTemplate::FromText(folder, files);
  if (!given.ok()) {
    return MakeError(ErrorCode::kCorrupt, "--chat-template {}: {}",
                     flags_.chat_template, given.error().message);
  }
  chat_template_ = *std::move(given);
  return Ok{};
}

Status ServeRun::MakeEngine() {
  ASSIGN_OR_RETURN(EngineOptions options, ParseEngineOptions(flags_.engine));
  options.max_watched_requests = flags_.max_watched_requests;
  options.max_read_ranges = flags_.max_read_ranges;
  options.max_scored_rows = kMaxScoredRows;
  options.max_step_ms = flags_.max_inter_token_ms;
  options.prefix_caching = flags_.vllm.prefix_caching;
  if (scheduler_trace_) {
    options.on_decision = [&file = *scheduler_trace_](
                              const Decision& decision) { file.Add(decision); };
  }
  const ModelConfig& config = loaded_.model->config();
  const int longest = options.max_model_len > 0 ? options.max_model_len
                                                : config.max_context_tokens;
  if (options.device_kv_bytes == 0) {
    options.device_kv_bytes =
        ServedKvBytes(loaded_, PagesFor(longest) * options.max_num_seqs);
  }
  std::vector<std::string> specs;
  for (const std::string& list : flags_.selects) {
    ASSIGN_OR_RETURN(const auto split, SplitSelects(list));
    specs.insert(specs.end(), split.begin(), split.end());
  }
  if (specs.empty()) specs.push_back("auto");
  specs.push_back("dense");
  for (const std::string& spec : specs) {
    if (std::ranges::find(selects_, spec,
                          &std::pair<std::string, int>::first) !=
        selects_.end()) {
      continue;
    }
    ASSIGN_OR_RETURN(const std::string named,
                     ResolveSelect(spec, config.native_selector));
    // Everything is read without a selector too.
    int number = -1;
    if (named != "dense") {
      const auto found = std::ranges::find(options.selectors, named);
      number = static_cast<int>(found - options.selectors.begin());
      if (found == options.selectors.end()) options.selectors.push_back(named);
    }
    selects_.emplace_back(spec, number);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<DiskStore> disk,
                   OpenKvDisk(flags_.kv_disk, loaded_, flags_.engine.quiet));
  ASSIGN_OR_RETURN(engine_, Engine::Create(*loaded_.backend, *loaded_.model,
                                           options, std::move(disk)));
  max_model_len_ = engine_->max_model_len();
  return Ok{};
}

void ServeRun::OpenLog() {
  if (flags_.engine.quiet || flags_.log_level == "none") return;
  const LogLevel least = flags_.log_level == "error"     ? LogLevel::kError
                         : flags_.log_level == "warning" ? LogLevel::kWarning
                                                         : LogLevel::kInfo;
  log_ = std::make_unique<RequestLog>(
      STDERR_FILENO,
      flags_.log_format == "json" ? LogFormat::kJson : LogFormat::kText, least);
}

// The environment's where no flag gives one.
std::string ApiKeyOf(const std::string& given) {
  for (const char* name : {"WINNOW_API_KEY", "VLLM_API_KEY"}) {
    const char* const key = std::getenv(name);
    if (given.empty() && key != nullptr && *key != '\0') return key;
  }
  return given;
}

bool IsLoopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

Result<ServiceOptions> ServeRun::ServiceLimits() const {
  ServiceOptions limits;
  ASSIGN_OR_RETURN(limits.grammars, GrammarLimitsOf());
  ASSIGN_OR_RETURN(
      limits.max_encoding_bytes,
      SizeOf("--max-encoding-size", flags_.max_encoding_size.empty()
                                        ? flags_.max_body_size
                                        : flags_.max_encoding_size));
  if (limits.max_encoding_bytes == 0 && !flags_.max_encoding_size.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--max-encoding-size must be at least 1B, is \"{}\"",
                     flags_.max_encoding_size);
  }
  limits.default_max_tokens = flags_.default_max_tokens;
  limits.splits_thoughts = flags_.vllm.splits_thoughts;
  limits.max_request_s = flags_.request_timeout_s;
  limits.rules.json.max_bytes = SIZE_MAX;  // The server has looked at it.
  limits.rules.json.max_depth = flags_.max_json_depth;
  limits.rules.max_n = flags_.max_n;
  limits.max_watched_requests = flags_.max_watched_requests;
  return limits;
}

ApiOptions ServeRun::MakeApiOptions(ServiceOptions service) const {
  const ModelConfig& config = loaded_.model->config();
  ApiOptions options;
  options.api_key = api_key_;
  if (api_key_.empty() && IsLoopback(flags_.host)) {
    options.allowed_hosts = flags_.allowed_hosts;
    options.allowed_hosts->push_back(flags_.host);
  }
  options.allowed_origins = allowed_origins_;
  options.version = WINNOW_VERSION;
  service.model_names = model_names_;
  service.max_model_len = max_model_len_;
  service.seed = flags_.engine.seed;
  service.rules.defaults = config.generation;
  service.rules.defaults.eos_token_ids =
      EndTokenIds(config, *loaded_.tokenizer);
  service.rules.vocab_size = config.vocab_size;
  service.selects = selects_;
  service.num_layers = config.num_layers;
  service.num_q_heads = config.num_q_heads;
  options.service = std::move(service);
  return options;
}

void ServeRun::WarnOfFlags() const {
  if (flags_.engine.quiet) return;
  for (const std::string& idle : flags_.vllm.idle) {
    std::fprintf(stderr, "winnow: %s\n", idle.c_str());
  }
  if (!IsLoopback(flags_.host) && api_key_.empty()) {
    std::fprintf(stderr,
                 "winnow: warning: --host %s without --api-key: whoever "
                 "reaches this machine may ask\n",
                 flags_.host.c_str());
  }
}

void ServeRun::WarnOfTemplates() const {
  if (flags_.engine.quiet || !chat_template_) return;
  std::istringstream lines(chat_template_->Complaints());
  for (std::string line; std::getline(lines, line);) {
    std::fprintf(stderr, "winnow: warning: %s\n", line.c_str());
  }
}

void ServeRun::PrintAddress() const {
  if (flags_.engine.quiet) return;
  const bool v6 = flags_.host.find(':') != std::string::npos;
  std::fprintf(stderr,
               "winnow: serving %s at http://%s%s%s:%d (loaded in %s)\n",
               model_names_.front().c_str(), v6 ? "[" : "", flags_.host.c_str(),
               v6 ? "]" : "", server_->port(),
               FormatSeconds(loaded_.load_ms / 1000).c_str());
}

void ServeRun::StartLoop() {
  metrics_ = std::make_unique<Metrics>(model_names_.front());
  loop_ = std::make_unique<EngineLoop>(
      std::move(engine_),
      LoopLimits{.max_open =
                     flags_.engine.max_num_seqs + flags_.max_queued_requests},
      *metrics_,
      LoopListeners{
          .on_failure = [this](const Error& error) { end_.Fail(error); },
          .on_disk_failure =
              [this](const std::string& message) {
                if (log_) log_->Add({.name = "kv_disk", .message = message});
              },
          .on_given_up =
              [this](const std::string& message) {
                if (log_) log_->Add({.name = "scheduler", .message = message});
              }});
}

void ServeRun::FinishDisk() {
  if (flags_.kv_disk.folder.empty() || flags_.kv_disk_drain_s == 0) return;
  if (loop_->AwaitRest(std::chrono::seconds(flags_.kv_disk_drain_s))) return;
  if (log_ == nullptr) return;
  log_->Add(
      {.name = "kv_disk",
       .message = fmt::format(
           "not all KV was written within {} s (--kv-disk-drain-timeout): "
           "the rest is dropped",
           flags_.kv_disk_drain_s)});
}

Result<int> ServeRun::Run() {
  api_key_ = ApiKeyOf(flags_.api_key);
  model_names_ = flags_.served_model_names;
  if (model_names_.empty()) {
    const auto folder =
        std::filesystem::absolute(flags_.engine.model).lexically_normal();
    model_names_ = {
        (folder.has_filename() ? folder : folder.parent_path()).filename()};
  }
  RETURN_IF_ERROR(KvDiskBytes(flags_.kv_disk));
  ASSIGN_OR_RETURN(allowed_origins_, ParseOrigins(flags_.allowed_origins));
  ASSIGN_OR_RETURN(const HttpLimits limits, Limits());
  ASSIGN_OR_RETURN(ServiceOptions service, ServiceLimits());
  // Before the model is loaded, so that a port that is taken is told at once.
  ASSIGN_OR_RETURN(server_, HttpServer::Bind(flags_.host, flags_.port, limits));
  WarnOfFlags();
  if (!flags_.scheduler_trace.empty()) {
    ASSIGN_OR_RETURN(
        const int64_t max_bytes,
        SizeOf("--max-scheduler-trace-size", flags_.max_scheduler_trace_size));
    ASSIGN_OR_RETURN(scheduler_trace_, ScheduleTraceFile::Create(
                                           flags_.scheduler_trace, max_bytes));
  }
  RETURN_IF_ERROR(KeepMemoryReserve());
  RETURN_IF_ERROR(ReadChatTemplate());
  WarnOfTemplates();
  ASSIGN_OR_RETURN(
      loaded_,
      OpenModel(flags_.engine, {.has_identity = KeepsKv(flags_.kv_disk)}));
  RETURN_IF_ERROR(MakeEngine());
  OpenLog();
  StartLoop();
  const int num_cores = static_cast<int>(std::thread::hardware_concurrency());
  const int num_threads = std::clamp(num_cores, 1, kMaxHttpThreads);
  api_ = std::make_unique<HttpApi>(MakeApiOptions(std::move(service)),
                                   ServiceParts{.tokenizer = *loaded_.tokenizer,
                                                .chat_template = chat_template_,
                                                .loop = *loop_,
                                                .metrics = *metrics_},
                                   log_.get(), num_threads + 1);
  interrupt_.Hold([this] { end_.Ask(); });
  server_->Start(*api_, num_threads);
  PrintAddress();
  if (const auto failure = end_.Await()) {
    // Whoever waits hears why there is no answer.
    api_->Drain();
    server_->DrainWithin(kTimeToTell);
    if (!flags_.kv_disk.folder.empty()) {
      exit_deadline_.Set(kTimeToEnd, EXIT_FAILURE, failure->message);
    }
    return *failure;
  }
  // The first signal: whoever waits for an answer gets it. The next one ends
  // the process where it is: see Interrupt.
  api_->Drain();
  server_->Drain();
  FinishDisk();
  if (!flags_.kv_disk.folder.empty()) exit_deadline_.Set(kTimeToEnd, 0);
  return 0;
}

}  // namespace

Result<int> RunServe(const ServeFlags& flags) { return ServeRun(flags).Run(); }

}  // namespace winnow
