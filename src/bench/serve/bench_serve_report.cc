#include "bench/serve/bench_serve_report.h"

#include <algorithm>
#include <cmath>

#include "cli/command/flag_value.h"
#include "cli/command/progress.h"
#include "model/config/json_fields.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

struct Metric {
  const char* name;
  const char* title;
  Samples LoadFigures::* samples;
};
constexpr Metric kMetrics[] = {
    {"ttft", "first token (ttft)", &LoadFigures::ttft_ms},
    {"tpot", "each later token (tpot)", &LoadFigures::tpot_ms},
    {"itl", "between tokens (itl)", &LoadFigures::itl_ms},
    {"e2el", "whole answer (e2el)", &LoadFigures::e2el_ms}};

std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> words(1);
  for (const char c : list) {
    if (c == ',') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

std::vector<Metric> Told(const ServeReport& report) {
  std::vector<Metric> told;
  for (const Metric& metric : kMetrics) {
    const bool wanted = std::ranges::find(report.metrics.names, metric.name) !=
                        report.metrics.names.end();
    if (wanted) told.push_back(metric);
  }
  return told;
}

double PerSecond(const ServeReport& report, double count) {
  const double seconds = report.figures.seconds;
  return seconds > 0 ? count / seconds : 0;
}

std::string GoalsText(const LoadGoals& goals) {
  std::string text;
  const auto add = [&text](const char* name, const std::optional<double>& ms) {
    if (!ms) return;
    text += fmt::format("{}{} <= {:g} ms", text.empty() ? "" : ", ", name, *ms);
  };
  add("ttft", goals.ttft_ms);
  add("tpot", goals.tpot_ms);
  add("e2el", goals.e2el_ms);
  return text;
}

std::string LatencyTable(const ServeReport& report) {
  std::string table = fmt::format("{:<26}{:>10}{:>10}", "ms", "mean", "median");
  for (const double percent : report.metrics.percentiles) {
    table += fmt::format("{:>10}", fmt::format("p{:g}", percent));
  }
  table += '\n';
  for (const Metric& metric : Told(report)) {
    const Samples& samples = report.figures.*metric.samples;
    if (samples.empty()) continue;
    table += fmt::format("{:<26}{:>10.1f}{:>10.1f}", metric.title,
                         samples.Mean(), samples.Percentile(50));
    for (const double percent : report.metrics.percentiles) {
      table += fmt::format("{:>10.1f}", samples.Percentile(percent));
    }
    table += '\n';
  }
  return table;
}

std::string RateLines(const ServeReport& report) {
  const LoadFigures& figures = report.figures;
  const auto rate = [&](int64_t count) {
    return PerSecond(report, static_cast<double>(count));
  };
  const auto answered = static_cast<int64_t>(figures.answered);
  std::string lines = fmt::format("requests/s  {:.2f}", rate(answered));
  if (figures.good) {
    lines +=
        fmt::format(", good {:.2f} ({} of {}: {})",
                    rate(static_cast<int64_t>(*figures.good)), *figures.good,
                    figures.sent, GoalsText(report.flags.goals));
  }
  lines += fmt::format(
      "\ntokens/s    {:.1f} generated, {:.1f} with prompts ({} and {} in "
      "all{})\n",
      rate(figures.completion_tokens),
      rate(figures.completion_tokens + figures.prompt_tokens),
      FormatCount(figures.completion_tokens),
      FormatCount(figures.prompt_tokens),
      figures.cached_tokens == 0
          ? std::string()
          : fmt::format(", of these {} cached",
                        FormatCount(figures.cached_tokens)));
  if (figures.tokens_untold > 0) {
    lines += fmt::format(
        "the server told no usage with {} answers: their tokens are events\n",
        figures.tokens_untold);
  }
  return lines;
}

std::string LateLine(const ServeReport& report) {
  const LoadFigures& figures = report.figures;
  std::string line;
  if (figures.late > 0) {
    line = fmt::format("sent late   {} of {}, at most by {:.0f} ms{}\n",
                       figures.late, figures.sent, figures.most_late_ms,
                       report.flags.max_concurrency > 0
                           ? " (--max-concurrency holds them)"
                           : "");
  }
  constexpr double kBusy = 0.8;
  if (figures.client_busy_share > kBusy) {
    line += fmt::format(
        "this client computed {:.0f} % of the time: it may be what was "
        "measured\n",
        100 * figures.client_busy_share);
  }
  return line;
}

std::string FaultLines(const LoadFigures& figures) {
  std::string lines;
  for (const FaultCount& fault : figures.faults) {
    lines += fmt::format("failed      {} x {}; request {}: {}\n", fault.count,
                         fault.name, fault.first + 1, fault.example);
  }
  return lines;
}

std::string AnswerLine(const ServeAnswers& answers) {
  if (answers.checked == 0) return {};
  return fmt::format("answers     {} of {} right{}\n", answers.right,
                     answers.checked,
                     answers.wrong.empty() ? "" : "; " + answers.wrong);
}

Json NumberOrNull(const Samples& samples, double value) {
  return samples.empty() ? Json() : Json(value);
}

void AddLatencies(const ServeReport& report, Json* json) {
  for (const Metric& metric : Told(report)) {
    const Samples& samples = report.figures.*metric.samples;
    const auto put = [&](const std::string& what, double value) {
      (*json)[fmt::format("{}_{}_ms", what, metric.name)] =
          NumberOrNull(samples, value);
    };
    put("mean", samples.Mean());
    put("median", samples.Percentile(50));
    put("std", samples.StandardDeviation());
    for (const double percent : report.metrics.percentiles) {
      put(fmt::format("p{:g}", percent), samples.Percentile(percent));
    }
  }
}

Json FaultsJson(const LoadFigures& figures) {
  Json errors = Json::array();
  for (const FaultCount& fault : figures.faults) {
    errors.push_back({{"kind", fault.name},
                      {"count", fault.count},
                      {"request", fault.first + 1},
                      {"example", fault.example}});
  }
  return errors;
}

}  // namespace

Result<ServeMetrics> ParseServeMetrics(const std::string& names,
                                       const std::string& percentiles) {
  ServeMetrics metrics;
  metrics.names = Split(names);
  for (const std::string& name : metrics.names) {
    if (std::ranges::find(kMetrics, name, &Metric::name) ==
        std::end(kMetrics)) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--percentile-metrics must be of ttft, tpot, itl, e2el "
                       "with commas, is \"{}\"",
                       names);
    }
  }
  for (const std::string& text : Split(percentiles)) {
    double percent = 0;
    const bool number = PositiveNumber(&percent)(text).empty();
    if (!number || percent > 100) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--metric-percentiles must be numbers above 0 and at "
                       "most 100 with commas, is \"{}\"",
                       percentiles);
    }
    metrics.percentiles.push_back(percent);
  }
  return metrics;
}

std::string ServeTable(const ServeReport& report) {
  const LoadFigures& figures = report.figures;
  std::string table = fmt::format(
      "{} at {}{}\n{} of {} requests in {}: {} answered, {} failed{}\n",
      Printable(report.model), report.address,
      report.flags.no_stream ? "" : ", streaming",
      FormatCount(static_cast<int64_t>(figures.sent)),
      FormatCount(static_cast<int64_t>(report.num_prompts)),
      FormatSeconds(figures.seconds), figures.answered, figures.failed,
      figures.interrupted == 0
          ? std::string()
          : fmt::format(", {} interrupted", figures.interrupted));
  table += AnswerLine(report.answers);
  if (figures.answered > 0) table += RateLines(report);
  table += LateLine(report) + FaultLines(figures);
  if (figures.answered > 0) table += '\n' + LatencyTable(report);
  return table;
}

Json ServeJson(const ServeReport& report) {
  const LoadFigures& figures = report.figures;
  const BenchServeFlags& flags = report.flags;
  const double rate = flags.arrivals.requests_per_second;
  const auto per_second = [&](int64_t count) {
    return PerSecond(report, static_cast<double>(count));
  };
  Json json = {
      {"backend", report.backend},
      {"address", report.address},
      {"model_id", report.model},
      {"num_prompts", report.num_prompts},
      {"request_rate", std::isinf(rate) ? Json("inf") : Json(rate)},
      {"burstiness", flags.arrivals.burstiness},
      {"max_concurrency",
       flags.max_concurrency > 0 ? Json(flags.max_concurrency) : Json()},
      {"seed", flags.engine.seed},
      {"streams", !flags.no_stream},
      {"duration", figures.seconds},
      {"sent", figures.sent},
      {"completed", figures.answered},
      {"failed", figures.failed},
      {"interrupted", figures.interrupted},
      {"total_input_tokens", figures.prompt_tokens},
      {"cached_input_tokens", figures.cached_tokens},
      {"total_output_tokens", figures.completion_tokens},
      {"answers_without_usage", figures.tokens_untold},
      {"request_throughput",
       per_second(static_cast<int64_t>(figures.answered))},
      {"request_goodput",
       figures.good ? Json(per_second(static_cast<int64_t>(*figures.good)))
                    : Json()},
      {"output_throughput", per_second(figures.completion_tokens)},
      {"total_token_throughput",
       per_second(figures.completion_tokens + figures.prompt_tokens)},
      {"late", figures.late},
      {"most_late_ms", figures.most_late_ms},
      {"client_busy_share", figures.client_busy_share}};
  AddLatencies(report, &json);
  json["answers_checked"] = report.answers.checked;
  json["answers_right"] = report.answers.right;
  json["errors"] = FaultsJson(figures);
  return json;
}

Json ServeRequestsJson(const std::vector<LoadOutcome>& outcomes) {
  Json requests = Json::array();
  for (const LoadOutcome& outcome : outcomes) {
    Json request = {
        {"due_s", outcome.due_s},
        {"sent_s", outcome.sent_s},
        {"input_tokens", outcome.prompt_tokens},
        {"output_tokens", outcome.completion_tokens},
        {"ttft_ms",
         outcome.first_token_s ? Json(*outcome.first_token_s * 1e3) : Json()},
        {"itl_ms", Json::array()},
        {"e2el_ms", outcome.latency_s * 1e3},
        {"text", outcome.text},
        {"error", outcome.answered()
                      ? Json()
                      : Json(FaultName(outcome) + ": " + outcome.fault_text)}};
    for (const double gap : outcome.gaps_s)
      request["itl_ms"].push_back(gap * 1e3);
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace winnow
