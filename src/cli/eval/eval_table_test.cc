#include "cli/eval/eval_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "source_dir.h"

namespace winnow {
namespace {

using nlohmann::json;

EvalQuestion Question(int file, int line, const std::string& task,
                      int64_t length) {
  return {.file = file,
          .line = line,
          .task = task,
          .length = length,
          .matcher = AnswerMatcher::Create({.answers = {"a"}}).value(),
          .tokens = {1},
          .answer = {1}};
}

EvalPlan SamplePlan() {
  EvalPlan plan;
  plan.files = {{.path = "a.jsonl"}, {.path = "longer/b.jsonl"}};
  plan.groups.resize(2);
  plan.groups[0].questions = {Question(0, 1, "vt", 4096),
                              Question(0, 3, "vt", 4096),
                              Question(1, 1, "vt", 1024)};
  plan.groups[1].questions = {Question(0, 2, "niah", 1024),
                              Question(0, 4, "vt", 1024)};
  return plan;
}

EvalOutcome Outcome(bool exact, int num_right) {
  return {.exact = exact,
          .num_answer_tokens = 4,
          .num_right = num_right,
          .num_free_right = num_right - 1,
          .num_decode_rows = 10,
          .tokens_read_share = 0.5,
          .seconds = 0.25};
}

EvalOutcomes SampleOutcomes() {
  return {{{0, 1, 0}, Outcome(true, 4)},  {{0, 2, 0}, Outcome(true, 3)},
          {{0, 3, 0}, Outcome(false, 2)}, {{0, 4, 0}, Outcome(true, 4)},
          {{1, 1, 0}, Outcome(true, 4)},  {{0, 2, 1}, Outcome(false, 1)}};
}

TEST(EvalTableTest, RowsAreCellsInOrder) {
  const auto rows =
      MakeEvalRows(SamplePlan(), {"dense", "auto"}, SampleOutcomes());
  std::vector<std::string> places;
  for (const EvalRow& row : rows) {
    places.push_back(fmt::format("{} {} {} {} {}", row.select, row.file,
                                 row.task, row.length, row.n));
  }
  EXPECT_EQ(places,
            (std::vector<std::string>{
                "dense a.jsonl vt 1024 1", "dense a.jsonl vt 4096 2",
                "dense a.jsonl niah 1024 1", "dense longer/b.jsonl vt 1024 1",
                "auto a.jsonl niah 1024 1"}));
  EXPECT_EQ(rows[1].num_exact, 1);
  EXPECT_EQ(rows[1].num_answer_tokens, 8);
  EXPECT_EQ(rows[1].num_right, 6);
  EXPECT_EQ(rows[1].num_free_right, 4);
  EXPECT_EQ(rows[1].seconds, 0.5);
}

// Against the interval's definition: at its ends the observed share lies 1.96
// standard deviations of that end away.
TEST(EvalTableTest, WilsonIntervalEndsWhereItsDefinitionSays) {
  for (const auto& [num_right, n] :
       {std::pair(98, 100), std::pair(1, 20), std::pair(10, 20),
        std::pair(100, 100), std::pair(0, 3)}) {
    const Interval interval = WilsonInterval(num_right, n);
    const double share = static_cast<double>(num_right) / n;
    EXPECT_LE(interval.low, share);
    EXPECT_GE(interval.high, share);
    for (const double end : {interval.low, interval.high}) {
      if (end == share) continue;  // 0 or 1
      EXPECT_NEAR(std::abs(share - end) / std::sqrt(end * (1 - end) / n),
                  1.959963984540054, 1e-9)
          << num_right << " of " << n;
    }
  }
  // 100 of 100, as every table of the lab has it.
  EXPECT_NEAR(WilsonInterval(100, 100).low, 0.9630, 5e-5);
}

TEST(EvalTableTest, JsonKeepsTheContract) {
  const std::string page =
      *ReadFile(WINNOW_SOURCE_DIR "/docs/contract.md", 1 << 20);
  const size_t begin = page.find("**`eval --json FILE`**");
  const size_t open = page.find("`{", begin);
  const std::string contract = page.substr(open, page.find("}`", open) - open);
  const auto rows =
      MakeEvalRows(SamplePlan(), {"dense", "auto"}, SampleOutcomes());
  const KvUse use = {.cached_tokens = 7,
                     .pieces = {.picks = 5, .hits = 3},
                     .written_bytes = 64,
                     .stall_ms = 1.5};
  const json all = json::parse(EvalJson("some/model", 3, use, rows));
  EXPECT_EQ(all["skipped_lines"], 3);
  EXPECT_EQ(all["kv"]["cached_tokens"], 7);
  EXPECT_EQ(all["kv"]["picks"], 5);
  EXPECT_EQ(all["kv"]["hits"], 3);
  EXPECT_EQ(all["kv"]["written_bytes"], 64);
  EXPECT_EQ(all["kv"]["stall_ms"], 1.5);
  std::vector<std::string> keys;
  for (const auto& [key, value] : all.items()) keys.push_back(key);
  for (const auto& [key, value] : all["kv"].items()) keys.push_back(key);
  for (const auto& [key, value] : all["rows"][0].items()) keys.push_back(key);
  for (const std::string& key : keys) {
    EXPECT_NE(contract.find("\"" + key + "\""), std::string::npos) << key;
  }
  EXPECT_EQ(std::count(contract.begin(), contract.end(), '"'),
            2 * std::ssize(keys));
  EXPECT_EQ(all["model"], "some/model");
  const json& row = all["rows"][1];
  EXPECT_EQ(row["exact"], 0.5);
  EXPECT_EQ(row["token_accuracy"], 0.75);
  EXPECT_EQ(row["free_token_accuracy"], 0.5);
  EXPECT_EQ(row["tokens_read_share"], 0.5);
  EXPECT_EQ(row["exact_interval"].size(), 2u);
}

TEST(EvalTableTest, WhatCannotBeMeasuredIsNull) {
  EvalOutcome patterns = {.exact = true};
  const auto rows =
      MakeEvalRows(SamplePlan(), {"dense"}, {{{0, 1, 0}, patterns}});
  const json row = json::parse(EvalJson("m", 0, {}, rows))["rows"][0];
  EXPECT_TRUE(row["token_accuracy"].is_null());
  EXPECT_TRUE(row["free_token_accuracy"].is_null());
  EXPECT_TRUE(row["tokens_read_share"].is_null());
  EXPECT_NE(EvalTable(rows).find("       -       -       -      0.0\n"),
            std::string::npos)
      << EvalTable(rows);
}

TEST(EvalTableTest, TableForPeople) {
  const auto rows = MakeEvalRows(
      SamplePlan(), {"dense"},
      {{{0, 1, 0}, Outcome(true, 4)}, {{0, 3, 0}, Outcome(false, 2)}});
  EXPECT_EQ(EvalTable(rows),
            "--select dense\n"
            "task  length     n  answers right          forced    free    read"
            "  seconds\n"
            "vt      4096     2  0.500 (0.095-0.905)     0.750   0.500   0.500"
            "      0.5\n");
}

}  // namespace
}  // namespace winnow
