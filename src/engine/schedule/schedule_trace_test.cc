#include "engine/schedule/schedule_trace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>

#include "backend/conformance/backend_under_test.h"
#include "engine/engine.h"
#include "engine/testing/null_observer.h"
#include "source_dir.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// The trace of a server under load; WINNOW_SCHEDULER_TRACE=FILE replays another
// one, as `winnow serve --scheduler-trace FILE` writes it.
std::string TraceFile() {
  const char* given = std::getenv("WINNOW_SCHEDULER_TRACE");
  return given != nullptr
             ? given
             : std::string(WINNOW_SOURCE_DIR) + "/tests/golden/schedules.jsonl";
}

TEST(ScheduleTraceTest, ARecordedTraceIsDecidedAgainAsItWas) {
  std::ifstream file(TraceFile());
  ASSERT_TRUE(file) << TraceFile();
  std::stringstream text;
  text << file.rdbuf();
  const auto decisions = ParseScheduleTrace(text.str());
  ASSERT_TRUE(decisions.ok()) << TraceFile() << decisions.error().message;
  std::array<int, std::variant_size_v<Decision>> num_decisions = {};
  bool any_chunk = false;
  for (const Decision& decision : *decisions) {
    ++num_decisions[decision.index()];
    std::string line;
    std::getline(text, line);
    EXPECT_EQ(DecisionLine(DecideAgain(decision)), line);
    const auto* made = std::get_if<ScheduleDecision>(&decision);
    if (made == nullptr) continue;
    for (const StepItem& item : made->schedule.plan.items) {
      any_chunk |= item.num_tokens > 1;
    }
  }
  EXPECT_GT(num_decisions[0], 10);
  EXPECT_GT(num_decisions[1], 0);
  EXPECT_GT(num_decisions[2], 0);
  EXPECT_TRUE(any_chunk);
}

SequenceSnapshot RandomSequence(uint64_t id, std::mt19937& random) {
  const auto below = [&](int n) {
    return static_cast<int>(random() % static_cast<unsigned>(n));
  };
  SequenceSnapshot sequence = {.id = SequenceId(id),
                               .num_tokens = 2 + below(1000)};
  sequence.num_computed = below(sequence.num_tokens);
  sequence.admitted = below(2) == 0;
  sequence.priority = below(3) - 1;
  sequence.num_overtaken = below(2 * kMaxOvertaken);
  sequence.is_restoring = below(8) == 0;
  sequence.life_pages = 1 + below(40);
  sequence.host_pages = below(3);
  sequence.table_pages = below(100);
  sequence.selector = below(3) - 1;
  if (sequence.selector >= 0) sequence.num_segments = 1 + below(5);
  sequence.shared_segments = sequence.num_segments / 2;
  if (below(2) == 0) sequence.expected_pages = 1 + below(20);
  if (below(2) == 0) sequence.expected_table_pages = 1 + below(60);
  sequence.shared_pages = below(2);
  sequence.needs_all_layers = below(4) == 0;
  sequence.first_scored = below(100);
  sequence.end_scored = below(200);
  if (sequence.num_computed == 0 && below(4) == 0) {
    sequence.layerwise = true;
    sequence.next_layer = below(6);
    sequence.layer_tokens = below(sequence.num_tokens);
  }
  return sequence;
}

TEST(ScheduleTraceTest, ALineSaysAllThatADecisionWasMadeFrom) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> number(0, 100);
  for (int i = 0; i < 500; ++i) {
    ScheduleInput input;
    input.limits = {
        .max_num_seqs = static_cast<int>(random() % 20),
        .max_num_batched_tokens = 1 + static_cast<int>(random() % 999),
        .num_layers = 6,
        .layers_per_step = static_cast<int>(random() % 4),
        .num_pages = 200,
        .num_free_host_pages = static_cast<int64_t>(random() % 9),
        .num_table_pages = static_cast<int64_t>(random() % 999),
        .max_step_ms = random() % 2 == 0 ? 0 : number(random)};
    input.cost = {.step_ms = number(random),
                  .chunk_ms = number(random),
                  .row_ms = number(random) / 99,
                  .read_ms = number(random) / 1e5,
                  .single_row_ms = number(random) / 99,
                  .single_read_ms = number(random) / 1e5,
                  .margin = 1 + number(random) / 99,
                  .most = {.rows = number(random), .reads = 1e5}};
    input.admits = random() % 4 != 0;
    input.repeated_pages = static_cast<int64_t>(random() % 3);
    input.num_segments = {static_cast<int64_t>(random() % 20), 8};
    for (uint64_t id = 1; id <= random() % 12; ++id) {
      input.sequences.push_back(RandomSequence(id, random));
    }
    if (!input.sequences.empty() && random() % 2 == 0) {
      SequenceSnapshot& prefix = input.sequences.front();
      prefix.layerwise = false;
      prefix.admitted = true;
      prefix.fork_pages = 3;
      prefix.num_computed = prefix.num_tokens;
      SequenceSnapshot fork = RandomSequence(99, random);
      fork.layerwise = false;
      fork.prefix = prefix.id;
      input.sequences.push_back(fork);
    }
    const Schedule schedule = PlanStep(input);
    const std::string line = DecisionLine(ScheduleDecision{input, schedule});
    const auto parsed = ParseDecisionLine(line);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message << line;
    const auto& made = std::get<ScheduleDecision>(*parsed);
    EXPECT_EQ(made.schedule, schedule) << line;
    EXPECT_EQ(PlanStep(made.input), schedule) << line;
    EXPECT_EQ(DecisionLine(*parsed), line);
  }
}

TEST(ScheduleTraceTest, ALineSaysByWhatAVictimWasChosen) {
  std::mt19937 random(12);
  bool any = false;
  for (int i = 0; i < 500; ++i) {
    VictimDecision made;
    for (uint64_t id = 1; id <= random() % 12; ++id) {
      made.sequences.push_back(RandomSequence(id, random));
    }
    made.victim = PreemptionVictim(made.sequences);
    any |= made.victim.has_value();
    const std::string line = DecisionLine(made);
    const auto parsed = ParseDecisionLine(line);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message << line;
    EXPECT_EQ(std::get<VictimDecision>(*parsed).victim, made.victim) << line;
    EXPECT_EQ(DecisionLine(DecideAgain(*parsed)), line);
  }
  EXPECT_TRUE(any);
}

// Else what is promised would be looked up beside what there is.
TEST(ScheduleTraceTest, SegmentsAreOfASelectorThatIsThere) {
  ScheduleInput input;
  input.num_segments = {8, 8};
  for (const int selector : {-1, 0, 1, 2}) {
    SequenceSnapshot sequence;
    sequence.id = SequenceId(1);
    sequence.num_tokens = 5;
    sequence.admitted = true;
    sequence.selector = selector;
    sequence.num_segments = 3;
    input.sequences = {sequence};
    const auto parsed =
        ParseDecisionLine(DecisionLine(ScheduleDecision{input, {}}));
    if (selector == 0 || selector == 1) {
      ASSERT_TRUE(parsed.ok()) << parsed.error().message;
      const auto& made = std::get<ScheduleDecision>(*parsed);
      EXPECT_EQ(made.input.sequences.at(0).selector, selector);
    } else {
      ASSERT_FALSE(parsed.ok()) << selector;
      EXPECT_EQ(parsed.error().message,
                fmt::format("field sequences.selector: must be in [0, 2), is "
                            "{}",
                            selector));
    }
  }
}

TEST(ScheduleTraceTest, ALineSaysByWhatSomebodyIsLate) {
  std::mt19937 random(13);
  bool any = false;
  for (int i = 0; i < 500; ++i) {
    ExpiryDecision made = {
        .sequences = {},
        .now = std::chrono::steady_clock::time_point(std::chrono::hours(9)),
        .expired = {}};
    for (uint64_t id = 1; id <= random() % 12; ++id) {
      made.sequences.push_back(RandomSequence(id, random));
      if (random() % 3 == 0) continue;
      made.sequences.back().deadline =
          made.now + std::chrono::nanoseconds(int64_t{500} - random() % 1000);
    }
    made.expired = ExpiredSequences(made.sequences, made.now);
    any |= !made.expired.empty();
    const std::string line = DecisionLine(made);
    const auto parsed = ParseDecisionLine(line);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message << line;
    EXPECT_EQ(std::get<ExpiryDecision>(*parsed).expired, made.expired) << line;
    EXPECT_EQ(DecisionLine(DecideAgain(*parsed)), line);
  }
  EXPECT_TRUE(any);
}

TEST(ScheduleTraceTest, WhatIsNoLineIsRefused) {
  for (const char* line :
       {"", "{", "[]", "{}", "7", R"({"format":2,"decision":"schedule"})",
        R"({"format":3,"decision":"lunch"})",
        R"({"format":3,"decision":"victim","sequences":[],"victim":"x"})"}) {
    const auto parsed = ParseDecisionLine(line);
    ASSERT_FALSE(parsed.ok()) << line;
    EXPECT_EQ(parsed.error().code, ErrorCode::kCorrupt);
  }
}

// As nothing, it would be decided otherwise, or so by luck.
TEST(ScheduleTraceTest, WhatIsMissingIsNamed) {
  const std::string line = DecisionLine(ScheduleDecision{
      .input = {.limits = {}, .sequences = {}}, .schedule = {}});
  for (const char* field :
       {R"("format":3,)", R"("admits":true,)", R"("num_segments":)",
        R"("num_table_pages":)", R"("max_num_seqs":)", R"("margin":)",
        R"("most_reads":)"}) {
    std::string less = line;
    const size_t at = less.find(field);
    ASSERT_NE(at, std::string::npos) << field << " in " << line;
    less.replace(at, 2, "\"x");  // Another name.
    std::string name(field);
    name = name.substr(1, name.find('"', 1) - 1);
    const auto parsed = ParseDecisionLine(less);
    ASSERT_FALSE(parsed.ok()) << field;
    const std::string told = name + ": is missing";
    EXPECT_TRUE(parsed.error().message.starts_with("field "));
    EXPECT_TRUE(parsed.error().message.ends_with(told))
        << parsed.error().message;
    const auto trace = ParseScheduleTrace(line + "\n" + less + "\n");
    ASSERT_FALSE(trace.ok());
    EXPECT_EQ(trace.error().message, "line 2: " + parsed.error().message);
  }
  EXPECT_EQ(ParseScheduleTrace(line + "\n" + line)->size(), 2u);
}

// The engine says what it decides, each time, and nothing else goes into it.
TEST(ScheduleTraceTest, AnEnginesDecisionsAreMadeAgain) {
  const TemporaryFolder folder("schedule_trace_test");
  const auto golden = ReadTinyCase("llama");
  WriteTinyModel(golden, folder.path(), {.dtype = Dtype::kFloat32});
  const Model model = Model::Load(folder.path(), {}).value();
  const auto backend = BackendsUnderTest().front().make(1);
  std::vector<std::string> lines;
  EngineOptions options;
  options.max_num_batched_tokens = 64;
  options.device_kv_bytes =
      12 * kPageTokens * KvBytesPerToken(model.config(), Dtype::kFloat32);
  options.max_step_ms = 0.5;
  options.on_decision = [&](const Decision& decision) {
    lines.push_back(DecisionLine(decision));
  };
  const auto engine = Engine::Create(*backend, model, options).value();
  NullObserver ignored;
  int num_steps = 0;
  for (int i = 0; i < 6; ++i) {
    Request request;
    request.prompt.assign(static_cast<size_t>(20 + 9 * i), 1 + i);
    request.max_tokens = 20;
    ASSERT_TRUE(engine->Add(std::move(request), &ignored).ok());
    for (int step = 0; step < 3; ++step, ++num_steps) {
      ASSERT_TRUE(engine->Step().ok());
    }
  }
  while (engine->Step().value()) ++num_steps;
  EXPECT_GE(std::ssize(lines), num_steps);
  bool any_cost = false;
  for (const std::string& line : lines) {
    const Decision decision = ParseDecisionLine(line).value();
    EXPECT_EQ(DecisionLine(DecideAgain(decision)), line);
    const auto* made = std::get_if<ScheduleDecision>(&decision);
    any_cost |= made != nullptr && made->input.cost.most.rows > 0;
  }
  EXPECT_TRUE(any_cost);
}

}  // namespace
}  // namespace winnow
