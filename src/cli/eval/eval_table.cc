#include "cli/eval/eval_table.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

// The share, or nothing where there is nothing to be right.
Json ShareJson(int64_t num_right, int64_t n) {
  if (n == 0) return nullptr;
  return static_cast<double>(num_right) / static_cast<double>(n);
}

Json ReadShare(const EvalRow& row) {
  if (row.num_decode_rows == 0) return nullptr;
  return row.sum_of_read_shares / static_cast<double>(row.num_decode_rows);
}

std::string Shown(const Json& share) {
  return share.is_null() ? "-" : fmt::format("{:.3f}", share.get<double>());
}

struct Widths {
  size_t file = 0;  // 0: no column
  size_t task = 4;
};

std::string Heading(const Widths& widths) {
  std::string line;
  if (widths.file > 0) line = fmt::format("{:<{}}  ", "file", widths.file);
  return line + fmt::format("{:<{}}{:>8}{:>6}  {:<21}{:>8}{:>8}{:>8}{:>9}\n",
                            "task", widths.task, "length", "n", "answers right",
                            "forced", "free", "read", "seconds");
}

std::string LineOf(const EvalRow& row, const Widths& widths) {
  std::string line;
  if (widths.file > 0) line = fmt::format("{:<{}}  ", row.file, widths.file);
  const Interval interval = WilsonInterval(row.num_exact, row.n);
  const std::string right =
      fmt::format("{} ({:.3f}-{:.3f})", Shown(ShareJson(row.num_exact, row.n)),
                  interval.low, interval.high);
  return line + fmt::format(
                    "{:<{}}{:>8}{:>6}  {:<21}{:>8}{:>8}{:>8}{:>9.1f}\n",
                    row.task, widths.task, row.length, row.n, right,
                    Shown(ShareJson(row.num_right, row.num_answer_tokens)),
                    Shown(ShareJson(row.num_free_right, row.num_answer_tokens)),
                    Shown(ReadShare(row)), row.seconds);
}

void AddOutcome(const EvalOutcome& outcome, EvalRow* row) {
  ++row->n;
  row->num_exact += outcome.exact ? 1 : 0;
  row->num_answer_tokens += outcome.num_answer_tokens;
  row->num_right += outcome.num_right;
  row->num_free_right += outcome.num_free_right;
  row->num_decode_rows += outcome.num_decode_rows;
  row->sum_of_read_shares +=
      outcome.tokens_read_share * static_cast<double>(outcome.num_decode_rows);
  row->seconds += outcome.seconds;
}

}  // namespace

std::vector<EvalRow> MakeEvalRows(const EvalPlan& plan,
                                  const std::vector<std::string>& selects,
                                  const EvalOutcomes& outcomes) {
  std::map<std::pair<int, int>, const EvalQuestion*> questions;  // file, line
  for (const EvalGroup& group : plan.groups) {
    for (const EvalQuestion& question : group.questions) {
      questions[{question.file, question.line}] = &question;
    }
  }
  std::map<std::string, int> task_order;
  for (const auto& [place, question] : questions) {
    task_order.emplace(question->task, static_cast<int>(task_order.size()));
  }
  // By selection, file, task, length.
  std::map<std::tuple<int, int, int, int64_t>, EvalRow> rows;
  for (const auto& [key, outcome] : outcomes) {
    const EvalQuestion& question = *questions.at({key.file, key.line});
    EvalRow& row = rows[{key.select, key.file, task_order.at(question.task),
                         question.length}];
    row.file = plan.files[static_cast<size_t>(key.file)].path;
    row.task = question.task;
    row.length = question.length;
    row.select = selects[static_cast<size_t>(key.select)];
    AddOutcome(outcome, &row);
  }
  std::vector<EvalRow> in_order;
  for (auto& [place, row] : rows) in_order.push_back(std::move(row));
  return in_order;
}

Interval WilsonInterval(int num_right, int n) {
  CHECK(n > 0 && num_right >= 0 && num_right <= n, "num_right={} n={}",
        num_right, n);
  constexpr double kZ = 1.959963984540054;  // of the normal, at 0.975
  const double share = static_cast<double>(num_right) / n;
  const double z2 = kZ * kZ / n;
  const double middle = (share + z2 / 2) / (1 + z2);
  const double half =
      kZ / (1 + z2) * std::sqrt(share * (1 - share) / n + z2 / (4 * n));
  return {.low = num_right == 0 ? 0 : std::max(0.0, middle - half),
          .high = num_right == n ? 1 : std::min(1.0, middle + half)};
}

std::string EvalJson(const std::string& model, int64_t num_skipped,
                     const KvUse& use, const std::vector<EvalRow>& rows) {
  Json list = Json::array();
  for (const EvalRow& row : rows) {
    const Interval interval = WilsonInterval(row.num_exact, row.n);
    list.push_back(
        {{"file", row.file},
         {"task", row.task},
         {"length", row.length},
         {"select", row.select},
         {"n", row.n},
         {"exact", ShareJson(row.num_exact, row.n)},
         {"exact_interval", {interval.low, interval.high}},
         {"token_accuracy", ShareJson(row.num_right, row.num_answer_tokens)},
         {"free_token_accuracy",
          ShareJson(row.num_free_right, row.num_answer_tokens)},
         {"tokens_read_share", ReadShare(row)},
         {"seconds", std::round(row.seconds * 1000) / 1000}});
  }
  const Json all = {{"model", model},
                    {"skipped_lines", num_skipped},
                    {"kv",
                     {{"prompt_tokens", use.prompt_tokens},
                      {"cached_tokens", use.cached_tokens},
                      {"picks", use.pieces.picks},
                      {"hits", use.pieces.hits},
                      {"misses", use.pieces.misses},
                      {"hints", use.pieces.hints},
                      {"hints_used", use.pieces.hints_used},
                      {"fetched_bytes", use.pieces.fetched_bytes},
                      {"written_bytes", use.written_bytes},
                      {"stall_ms", use.stall_ms}}},
                    {"rows", list}};
  return all.dump(1, ' ', false, Json::error_handler_t::replace);
}

std::string EvalTable(const std::vector<EvalRow>& rows) {
  Widths widths;
  std::set<std::string> files;
  for (const EvalRow& row : rows) {
    files.insert(row.file);
    widths.task = std::max(widths.task, row.task.size());
  }
  if (files.size() > 1) {
    for (const std::string& file : files) {
      widths.file = std::max(widths.file, file.size());
    }
  }
  std::string table;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i == 0 || rows[i].select != rows[i - 1].select) {
      if (i > 0) table += '\n';
      table += fmt::format("--select {}\n{}", rows[i].select, Heading(widths));
    }
    table += LineOf(rows[i], widths);
  }
  return table;
}

}  // namespace winnow
