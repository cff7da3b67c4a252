#include "bench/serve/bench_serve.h"

#include <charconv>
#include <cmath>

#include "cli/command/command.h"
#include "cli/command/flag_value.h"

namespace winnow {
namespace {

constexpr int kMaxTokens = 1 << 24;
constexpr int kMaxRequests = 1 << 24;

class FlagsOf {
 public:
  explicit FlagsOf(Command& command) : command_(command) {}

  void Add(const char* name, const char* value_name, const std::string& help,
           TakeValue take, Flag::Values values = Flag::Values::kOne) {
    command_.AddFlag({.name = name,
                      .value_name = value_name,
                      .help = help,
                      .values = values},
                     std::move(take));
  }
  void AddSwitch(const char* name, const std::string& help, bool* value) {
    Add(name, "", help, Switch(value), Flag::Values::kNone);
  }

 private:
  Command& command_;
};

TakeValue RequestRate(BenchServeFlags* flags) {
  return [flags](const std::string& text) {
    flags->request_rate_given = true;
    double& rate = flags->arrivals.requests_per_second;
    if (text != "inf") {
      const std::string complaint = PositiveNumber(&rate)(text);
      return complaint.empty() ? complaint
                               : fmt::format(
                                     "must be inf or a number above "
                                     "0, is \"{}\"",
                                     text);
    }
    rate = std::numeric_limits<double>::infinity();
    return std::string();
  };
}

TakeValue Goal(LoadGoals* goals) {
  return [goals](const std::string& text) -> std::string {
    const size_t colon = text.find(':');
    const std::string metric = text.substr(0, colon);
    std::optional<double>* goal = metric == "ttft"   ? &goals->ttft_ms
                                  : metric == "tpot" ? &goals->tpot_ms
                                  : metric == "e2el" ? &goals->e2el_ms
                                                     : nullptr;
    double ms = 0;
    const bool number = colon != std::string::npos &&
                        PositiveNumber(&ms)(text.substr(colon + 1)).empty();
    if (goal == nullptr || !number) {
      return fmt::format("must be ttft:MS, tpot:MS or e2el:MS, is \"{}\"",
                         text);
    }
    *goal = ms;
    return {};
  };
}

void AddServer(FlagsOf add, BenchServeFlags* flags) {
  add.Add("--base-url", "URL",
          "Where the server is: http://HOST:PORT, in place of --host and "
          "--port",
          Text(&flags->base_url));
  add.Add("--host", "ADDRESS", "Its name or address (default 127.0.0.1)",
          Text(&flags->host));
  add.Add("--port", "N", "Its port (default 8000)",
          WholeNumber(1, kMaxPort, &flags->port));
  add.Add("--backend", "openai|openai-chat|vllm",
          "What is asked: openai (and vllm), completions; openai-chat, chats "
          "(default: what --endpoint ends in)",
          OneOf({"openai", "openai-chat", "vllm"}, &flags->backend));
  add.Add("--endpoint", "PATH",
          "(default /v1/completions; with openai-chat /v1/chat/completions)",
          Text(&flags->endpoint));
  add.Add("--model", "NAME",
          "What requests call the model (default: the first that the server "
          "lists)",
          Text(&flags->model));
  add.Add("--api-key", "KEY",
          "Sent as a bearer token (default: the environment's OPENAI_API_KEY, "
          "else none)",
          Text(&flags->api_key));
  add.Add("--header", "NAME=VALUE", "Sent with each request, besides",
          EachText(&flags->headers), Flag::Values::kOneEachTime);
  add.Add("--timeout", "SECONDS",
          "What a request may take until it counts as failed (default 3600)",
          WholeNumber(1, kMaxSeconds, &flags->timeout_s));
}

void AddPrompts(FlagsOf add, BenchServeFlags* flags) {
  add.Add("--dataset-name", "random|tasks|trace",
          "What is asked: random words; the questions of task files, whose "
          "answers are checked; random words of a trace's lengths at its "
          "times (default random, with --dataset-path tasks)",
          OneOf({"random", "tasks", "trace"}, &flags->dataset_name));
  add.Add("--dataset-path", "FILE",
          "JSON lines. Of tasks, as winnow eval reads them, may be repeated. "
          "Of a trace: {\"timestamp\": ms, \"input_length\": tokens, "
          "\"output_length\": tokens}, and, if prompts share beginnings, "
          "\"hash_ids\": a number for each 512 tokens, equal where the text is",
          EachText(&flags->dataset_paths), Flag::Values::kOneEachTime);
  add.Add("--num-prompts", "N",
          "Requests (default: each line once, of random words 1000); lines are "
          "asked again where there are fewer",
          WholeNumber(1, kMaxRequests, &flags->num_prompts));
  add.Add("--random-input-len", "N",
          "Tokens of a random prompt, nearly: words are counted as the server "
          "counts two prompts before the run (default 1024)",
          WholeNumber(1, kMaxTokens, &flags->random_input_len));
  add.Add("--random-output-len", "N",
          "Tokens to generate for it at most (default 128)",
          WholeNumber(1, kMaxTokens, &flags->random_output_len));
  add.Add("--output-len", "N",
          "Tokens to generate at most, whatever is asked (default of tasks: "
          "the bytes of the answer, and 32)",
          WholeNumber(1, kMaxTokens, &flags->output_len));
  add.Add("--match", "contains|exact|regex",
          "When a task's answer is right, as of winnow eval (default contains)",
          Text(&flags->match));
  add.AddSwitch("--ignore-eos",
                "Ask for answers that do not end early (vLLM's ignore_eos)",
                &flags->ignore_eos);
  add.AddSwitch("--no-stream", "Ask for whole answers", &flags->no_stream);
  add.Add("--temperature", "T", "Of sampling (default 0: greedy)",
          Number({.least = 0, .most = 100}, &flags->temperature));
  add.Add("--extra-body", "JSON",
          "An object whose fields each request has besides",
          Text(&flags->extra_body));
}

void AddArrivals(FlagsOf add, BenchServeFlags* flags) {
  add.Add("--request-rate", "R",
          "Requests a second, sent when they are due however slow the server "
          "is; inf: all at once (default inf)",
          RequestRate(flags));
  add.Add("--burstiness", "B",
          "Shape of the gamma distribution of the gaps: 1, Poisson arrivals; "
          "below, bursts; above, more evenly (default 1)",
          PositiveNumber(&flags->arrivals.burstiness));
  add.Add("--max-concurrency", "N",
          "Requests at once; those that are due wait, and count as sent late "
          "(default: no limit)",
          WholeNumber(1, kMaxRequests, &flags->max_concurrency));
  add.Add("--trace-speed", "F", "A trace's times are divided by it (default 1)",
          PositiveNumber(&flags->trace_speed));
  add.Add("--seed", "N",
          "Of arrivals and random words: the same seed, the same load (default "
          "0)",
          WholeNumber(0, UINT64_MAX, &flags->engine.seed));
}

void AddReport(FlagsOf add, Command& command, BenchServeFlags* flags) {
  add.Add("--goodput", "METRIC:MS",
          "What a request must keep to count as good: ttft:500 tpot:50 "
          "e2el:5000, one or more",
          Goal(&flags->goals), Flag::Values::kSeveral);
  add.Add("--percentile-metrics", "LIST",
          "What is told: ttft, to the first token; tpot, of each later one; "
          "itl, between two; e2el, of all (default: these)",
          Text(&flags->percentile_metrics));
  add.Add("--metric-percentiles", "LIST",
          "Percentiles besides mean and median (default 90,99)",
          Text(&flags->metric_percentiles));
  AddJsonFlag(command,
              "The figures as JSON, under vLLM's names, to standard output or "
              "to FILE",
              &flags->engine);
  add.AddSwitch("--save-detailed", "With --json: each request, too",
                &flags->save_detailed);
  add.Add("--svg", "FILE",
          "A picture: how latencies are distributed; tokens a second and "
          "requests under way over time",
          Text(&flags->svg_file));
  add.AddSwitch("--quiet", "No progress on standard error",
                &flags->engine.quiet);
}

}  // namespace

Command& AddBenchServe(Command& bench, BenchServeFlags* flags) {
  Command& serve = bench.AddCommand(
      "serve",
      "A server of OpenAI's interface, any, under requests that come whether "
      "it keeps up or not: latencies, throughput, goodput, errors, answers "
      "right");
  const FlagsOf add(serve);
  AddServer(add, flags);
  AddPrompts(add, flags);
  AddArrivals(add, flags);
  AddReport(add, serve, flags);
  return serve;
}

}  // namespace winnow
