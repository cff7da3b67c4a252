// Against the plainest way to the same figures: every question alone, and every
// token of its answer a request of its own.
#include "cli/eval/eval_groups.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "backend/cpu/cpu_backend.h"
#include "engine/testing/hooked_backend.h"
#include "source_dir.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

using Ids = std::vector<int32_t>;

constexpr int kMaxLength = 96, kMaxSequences = 3;

class Collector : public RequestObserver {
 public:
  void OnPrefill(int, int) override {}
  bool OnToken(const GeneratedToken& token) override {
    ids.push_back(token.token_id);
    return true;
  }
  void OnFinish(const Completion&) override {}
  Ids ids;
};

class EvalGroupsTest : public testing::Test {
 protected:
  void SetUp() override { Load("llama"); }

  void Load(const std::string& name) {
    golden_ = ReadTinyCase(name);
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
    plan_ = {};
    MakePlan();
  }

  // With pages of a host below them texts are cached.
  std::unique_ptr<Engine> MakeEngine(int64_t num_pages,
                                     int64_t num_host_pages = 0,
                                     std::vector<std::string> selectors = {}) {
    const int64_t page_bytes =
        kPageTokens * KvBytesPerToken(model_->config(), Dtype::kFloat32);
    caches_texts_ = num_host_pages > 0;
    const EngineOptions options = {.max_model_len = kMaxLength,
                                   .max_num_seqs = kMaxSequences,
                                   .max_num_batched_tokens = 40,
                                   .device_kv_bytes = num_pages * page_bytes,
                                   .host_kv_bytes = num_host_pages * page_bytes,
                                   .batch_invariant = true,
                                   .prefix_caching = caches_texts_,
                                   .selectors = std::move(selectors)};
    return Engine::Create(backend_, *model_, options).value();
  }

  // The least pool in which every group fits by itself.
  int64_t LeastPages() const {
    int64_t num_pages = 0;
    for (const EvalGroup& group : plan_.groups) {
      num_pages = std::max(num_pages, PrefixPages(group) + AnswerPages(group));
    }
    return num_pages;
  }

  // Rows that run where all is asked.
  int64_t RowsOf(Engine& engine, int num_selects) {
    int64_t num_rows = 0;
    backend_.pre_embed = [&](const EmbedArgs& args) {
      num_rows += args.token_ids.dim(0);
    };
    RunAll(engine, {}, 8, num_selects);
    backend_.pre_embed = {};
    return num_rows;
  }

  // What the model says next, alone.
  Ids Draw(const Ids& prompt, int num_question_tokens, int max_tokens) {
    Request request;
    request.prompt = prompt;
    request.num_question_tokens = num_question_tokens;
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    Collector collector;
    const std::unique_ptr<Engine> engine = MakeEngine(3);
    EXPECT_TRUE(engine->Add(std::move(request), &collector).ok());
    while (*engine->Step()) {
    }
    return collector.ids;
  }

  // Three texts, one of them empty, some questions about each. About half of
  // an answer's tokens are what the model says behind the ones before.
  void MakePlan() {
    std::mt19937 random(7);
    const auto up_to = [&](size_t n) { return random() % n; };
    plan_.files = {{.path = "f"}};
    int line = 0;
    for (const size_t num_prefix : {45, 0, 32}) {
      EvalGroup group;
      group.prefix.assign(
          golden_.tokens.begin(),
          golden_.tokens.begin() + static_cast<int64_t>(num_prefix));
      for (int i = 0; i < 3; ++i) {
        Ids tokens;
        for (size_t k = 1 + up_to(6); k > 0; --k) {
          tokens.push_back(golden_.tokens[up_to(80)]);
        }
        group.questions.push_back(
            {.file = 0,
             .line = ++line,
             .task = "t",
             .matcher = AnswerMatcher::Create({.answers = {"?!"}}).value(),
             .tokens = tokens,
             .num_question_tokens = static_cast<int>(tokens.size()),
             .answer = {},
             .max_tokens = static_cast<int>(4 + up_to(8))});
        EvalQuestion& question = group.questions.back();
        for (size_t k = 1 + up_to(9); k > 0; --k) {
          const int32_t said = NextOf(group, question);
          question.answer.push_back(up_to(2) == 0 ? said : (said + 1) % 160);
        }
      }
      plan_.groups.push_back(group);
    }
  }

  // The token that follows the answer as far as it goes.
  int32_t NextOf(const EvalGroup& group, const EvalQuestion& question) {
    Ids prompt = group.prefix;
    prompt.insert(prompt.end(), question.tokens.begin(), question.tokens.end());
    prompt.insert(prompt.end(), question.answer.begin(), question.answer.end());
    const size_t num_question = question.tokens.size() + question.answer.size();
    return Draw(prompt, static_cast<int>(num_question), 1)[0];
  }

  EvalOutcome Expected(const EvalGroup& group, const EvalQuestion& question) {
    EvalOutcome outcome;
    outcome.num_answer_tokens = static_cast<int>(question.answer.size());
    EvalQuestion told = question;
    for (told.answer.clear(); told.answer.size() < question.answer.size();) {
      const int32_t right = question.answer[told.answer.size()];
      outcome.num_right += NextOf(group, told) == right ? 1 : 0;
      told.answer.push_back(right);
    }
    Ids prompt = group.prefix;
    prompt.insert(prompt.end(), question.tokens.begin(), question.tokens.end());
    const Ids said =
        Draw(prompt, question.num_question_tokens, question.max_tokens);
    for (size_t i = 0; i < std::min(said.size(), question.answer.size()); ++i) {
      outcome.num_free_right += said[i] == question.answer[i] ? 1 : 0;
    }
    outcome.num_decode_rows =
        static_cast<int64_t>(question.tokens.size() + said.size() - 1);
    outcome.tokens_read_share = 1;
    return outcome;
  }

  EvalOutcomes RunAll(Engine& engine, const EvalOutcomes& known,
                      int max_waiting, int num_selects = 2) {
    EvalGroups groups(engine,
                      {.plan = &plan_,
                       .num_selects = num_selects,
                       .tokenizer = &tokenizer_,
                       .end_token_ids = {},
                       .max_waiting = max_waiting,
                       .max_held = kMaxSequences,
                       .caches_texts = caches_texts_},
                      known);
    EvalOutcomes outcomes;
    const auto keep = [&](const EvalKey& key, const EvalOutcome& outcome) {
      EXPECT_GT(outcome.seconds, 0);
      EXPECT_TRUE(outcomes.emplace(key, outcome).second);
      outcomes[key].seconds = 0;
      return Status(Ok{});
    };
    while (true) {
      const Result<bool> more = groups.Step(keep);
      EXPECT_TRUE(more.ok()) << more.error().message;
      if (!more.ok() || !*more) break;
    }
    EXPECT_EQ(groups.done_tokens(), groups.total_tokens());
    EXPECT_EQ(engine.kv().num_free_pages(), engine.kv().num_pages());
    use_ = groups.kv_use();
    return outcomes;
  }

  HookedBackend backend_{MakeCpuBackend({.num_threads = 1})};
  std::unique_ptr<Model> model_;
  TinyCase golden_;
  Tokenizer tokenizer_ =
      Tokenizer::Load(std::filesystem::path(WINNOW_SOURCE_DIR) /
                      "tests/golden/tokenizers/llama3")
          .value();
  EvalPlan plan_;
  bool caches_texts_ = false;  // by the engine that was made last
  KvUse use_;                  // of the last run
};

TEST_F(EvalGroupsTest, FiguresAreThoseOfEveryTokenAlone) {
  EvalOutcomes expected;
  int num_right = 0, num_tokens = 0;
  for (const EvalGroup& group : plan_.groups) {
    for (const EvalQuestion& question : group.questions) {
      const EvalOutcome outcome = Expected(group, question);
      num_right += outcome.num_right;
      num_tokens += outcome.num_answer_tokens;
      expected[{0, question.line, 0}] = outcome;
      expected[{0, question.line, 1}] = outcome;
    }
  }
  // Neither all right nor all wrong, or the test would see nothing.
  EXPECT_GT(num_right, num_tokens / 4);
  EXPECT_LT(num_right, num_tokens * 3 / 4);
  // With room for all, and with room for the largest and no more.
  const int64_t num_pages = LeastPages();
  EXPECT_EQ(RunAll(*MakeEngine(100), {}, 100), expected);
  EXPECT_EQ(RunAll(*MakeEngine(num_pages), {}, 100), expected);
  EXPECT_EQ(RunAll(*MakeEngine(num_pages), {}, 1), expected);
  EXPECT_EQ(use_.cached_tokens, 0);
  for (const int64_t num_host_pages : {1, 4, 100}) {
    for (const int max_waiting : {1, 100}) {
      EXPECT_EQ(RunAll(*MakeEngine(num_pages, num_host_pages), {}, max_waiting),
                expected);
      EXPECT_EQ(use_.cached_tokens % kPageTokens, 0);
      EXPECT_GT(use_.cached_tokens, 0);
    }
  }
}

TEST_F(EvalGroupsTest, EveryTextIsReadOnce) {
  const auto rows_of = [&](int num_selects) {
    return RowsOf(*MakeEngine(100), num_selects);
  };
  const int64_t num_answer_rows = rows_of(2) - rows_of(1);
  EXPECT_EQ(rows_of(1) - num_answer_rows, 45 + 0 + 32);
  EXPECT_EQ(rows_of(3) - 3 * num_answer_rows, 45 + 0 + 32);
}

// Whole pages of it, and of a rotation that goes by the length all the same.
TEST_F(EvalGroupsTest, EveryCachedTextIsReadOnce) {
  for (const char* name : {"llama", "llama_dynamic"}) {
    Load(name);
    plan_.groups[0].prefix.resize(64);
    std::copy_n(golden_.tokens.begin(), 64, plan_.groups[0].prefix.begin());
    std::ranges::reverse(plan_.groups[2].prefix);  // They begin otherwise.
    for (const int num_selects : {1, 3}) {
      const int64_t num_held = RowsOf(*MakeEngine(100), num_selects);
      const int64_t num_held_tokens = use_.prompt_tokens;
      EXPECT_EQ(RowsOf(*MakeEngine(100, 100), num_selects), num_held) << name;
      EXPECT_EQ(use_.prompt_tokens, num_held_tokens);
      // Also where there is no room for two texts.
      EXPECT_EQ(RowsOf(*MakeEngine(LeastPages(), 1), num_selects), num_held)
          << name;
    }
    EXPECT_EQ(RunAll(*MakeEngine(LeastPages(), 100), {}, 8),
              RunAll(*MakeEngine(100), {}, 8))
        << name;
  }
}

// Of which there is room for one.
TEST_F(EvalGroupsTest, ATextIsReadForEachThatChoosesInIt) {
  const std::vector<std::string> selectors = {
      "infllm-v2:kernel=8,stride=4,block=32,budget=32,sink=0,recent=0,"
      "dense_len=20",
      "moba:block=32,budget=32", "window:sink=8,recent=24"};
  const EvalOutcomes expected =
      RunAll(*MakeEngine(100, 0, selectors), {}, 100, 3);
  EXPECT_EQ(expected.size(), 27u);
  for (const int64_t num_host_pages : {0, 4}) {
    for (const int max_waiting : {1, 100}) {
      EXPECT_EQ(RunAll(*MakeEngine(LeastPages(), num_host_pages, selectors), {},
                       max_waiting, 3),
                expected);
    }
  }
}

TEST_F(EvalGroupsTest, WhatCanNeverRunIsSaidBeforeAnythingDoes) {
  const auto check = [&](int64_t num_pages, const EvalGroup& group) {
    const std::unique_ptr<Engine> engine = MakeEngine(num_pages, 100);
    return EvalGroups::Check(*engine,
                             {.plan = &plan_,
                              .num_selects = 1,
                              .tokenizer = &tokenizer_,
                              .end_token_ids = {}},
                             group);
  };
  for (const EvalGroup& group : plan_.groups) {
    const int64_t num_pages = PagesFor(group.MaxLength() - 1);
    EXPECT_TRUE(check(num_pages, group).ok());
    if (num_pages == 1) continue;
    const Status status = check(num_pages - 1, group);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().message.find("f:"), 0u) << status.error().message;
    EXPECT_NE(status.error().message.find("device-kv holds"), std::string::npos)
        << status.error().message;
  }
}

TEST_F(EvalGroupsTest, WhatIsKnownIsNotAskedAgain) {
  const EvalOutcomes all = RunAll(*MakeEngine(100), {}, 8);
  EvalOutcomes known, others;
  for (const auto& [key, outcome] : all) {
    (key.line % 3 == key.select ? others : known)[key] = outcome;
  }
  ASSERT_FALSE(others.empty());
  EXPECT_EQ(RunAll(*MakeEngine(100), known, 8), others);
  EXPECT_EQ(RunAll(*MakeEngine(100, 4), known, 8), others);
  EXPECT_TRUE(RunAll(*MakeEngine(100), all, 8).empty());
}

TEST_F(EvalGroupsTest, ErrorsNameTheLineAndLeaveNothingBehind) {
  plan_.groups[2].questions[0].tokens[0] = 1 << 20;
  const std::unique_ptr<Engine> engine = MakeEngine(100);
  const auto step = [&] {
    EvalGroups groups(*engine,
                      {.plan = &plan_,
                       .num_selects = 1,
                       .tokenizer = &tokenizer_,
                       .end_token_ids = {}},
                      {});
    return groups.Step(
        [](const EvalKey&, const EvalOutcome&) -> Status { return Ok{}; });
  };
  const Result<bool> more = step();
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().message.find("f:7: prompt token must be"), 0u)
      << more.error().message;
  // What had been asked before is taken back.
  EXPECT_FALSE(*engine->Step());
}

}  // namespace
}  // namespace winnow
