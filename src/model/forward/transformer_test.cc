#include "model/forward/transformer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "tests/golden/step_driver.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

constexpr int kMaxTokens = 80;

// A tiny model with windowed and full layers, biases, and a prompt for it.
// What it computes is golden_test's to judge; here it is held against itself.
class TransformerTest : public testing::Test {
 protected:
  TransformerTest() : tiny_(ReadTinyCase("qwen2_layer_types")) {
    WriteTinyModel(tiny_, folder_.path(), {});
    model_.emplace(Model::Load(folder_.path(), {}).value());
  }

  DrivenRows Rows(int request, int begin, int end, int num_prefill_rows) const {
    return {
        .request = request,
        .first_position = begin,
        .token_ids = {tiny_.tokens.begin() + begin, tiny_.tokens.begin() + end},
        .num_prefill_rows = num_prefill_rows};
  }
  StepDriver Driver(int num_requests) {
    StepDriver driver(*backend_, *model_, num_requests, kMaxTokens);
    for (int i = 0; i < num_requests; ++i) driver.Plan(i, kMaxTokens);
    driver.batch_invariant = true;
    return driver;
  }
  int vocab() const { return model_->config().vocab_size; }

  TemporaryFolder folder_{"transformer"};
  TinyCase tiny_;
  std::optional<Model> model_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
};

// The last `count` rows of `logits`.
std::vector<float> LastRows(const std::vector<float>& logits, int count,
                            int width) {
  return {logits.end() - int64_t{count} * width, logits.end()};
}

// Bits of a request do not depend on who shares its steps: a prompt in chunks,
// another one that is generating, a third that does both in one step.
TEST_F(TransformerTest, BatchedEqualsAlone) {
  StepDriver alone = Driver(1);
  std::vector<std::vector<float>> expected;
  for (const DrivenRows& rows :
       {Rows(0, 0, 32, 32), Rows(0, 32, 70, 38), Rows(0, 70, 71, 0)}) {
    expected.push_back(alone.Step(std::span(&rows, 1)));
  }
  StepDriver batched = Driver(3);
  const std::vector<DrivenRows> first = {Rows(2, 0, 32, 32)};
  EXPECT_EQ(batched.Step(first), expected[0]);
  const std::vector<DrivenRows> second = {Rows(1, 0, 32, 32),
                                          Rows(2, 32, 70, 38)};
  const std::vector<float> both = batched.Step(second);
  EXPECT_EQ(LastRows(both, 38, vocab()), expected[1]);
  EXPECT_TRUE(std::equal(expected[0].begin(), expected[0].end(), both.begin()));
  // Request 0 has its last prefill rows and its first decode row in one step.
  const std::vector<DrivenRows> prompt = {Rows(0, 0, 32, 32)};
  batched.Step(prompt);
  const std::vector<DrivenRows> third = {
      Rows(1, 32, 70, 38), Rows(0, 32, 71, 38), Rows(2, 70, 71, 0)};
  const std::vector<float> all = batched.Step(third);
  EXPECT_EQ(LastRows(all, 1, vocab()), expected[2]);
  const std::vector<float> mixed(all.begin() + 38 * vocab(),
                                 all.begin() + 77 * vocab());
  EXPECT_EQ(LastRows(mixed, 1, vocab()), expected[2]);
  EXPECT_TRUE(
      std::equal(expected[1].begin(), expected[1].end(), mixed.begin()));
}

// Cut into layer ranges, a step gives the same bits.
TEST_F(TransformerTest, LayerRangesEqualOneRange) {
  const std::vector<DrivenRows> rows = {Rows(0, 0, 40, 40), Rows(1, 0, 7, 7)};
  StepDriver whole = Driver(2);
  StepDriver cut = Driver(2);
  const std::vector<int> ends = {1, 2};
  EXPECT_EQ(cut.Step(rows, ends), whole.Step(rows));
}

// A prompt of 68 tokens, in one step.
void AttendPrompt(StepDriver& driver, DrivenRows rows,
                  const SelectProgram* program) {
  if (program != nullptr) driver.Choose(*program);
  rows.num_prompt_tokens = 68;
  driver.Step(std::span(&rows, 1));
}

// Logits of the tokens behind it, one after the other.
std::vector<std::vector<float>> Generate(StepDriver& driver,
                                         const TinyCase& tiny) {
  std::vector<std::vector<float>> logits;
  for (int token = 68; token < kMaxTokens; ++token) {
    const DrivenRows rows = {
        .request = 0,
        .first_position = token,
        .token_ids = {tiny.tokens[static_cast<size_t>(token)]},
        .num_prompt_tokens = 68};
    logits.push_back(driver.Step(std::span(&rows, 1)));
  }
  return logits;
}

// Two pages leave the device behind the prompt; the rows to come read them in
// slots and on the host, to the bit as if they had stayed: everything, and what
// a selector picks; in windows too.
TEST_F(TransformerTest, PagesThatAreNotWholeGiveTheSameBits) {
  SelectProgram chooses;
  chooses.rows = {SummaryRows::Kind::kMean, 8, 8, Dtype::kFloat32};
  chooses.block_tokens = 8;
  chooses.forced = {.sink_tokens = 8, .recent_tokens = 8};
  chooses.budget = {Amount::Unit::kTokens, 24};
  const ModelConfig& config = model_->config();
  for (const SelectProgram* program :
       std::initializer_list<const SelectProgram*>{nullptr, &chooses}) {
    StepDriver resident = Driver(1);
    AttendPrompt(resident, Rows(0, 0, 68, 68), program);
    const auto expected = Generate(resident, tiny_);
    for (const int slot_tokens : {8, 16, 32}) {
      for (const int num_frames : {0, 1, 5}) {
        SCOPED_TRACE(testing::Message() << "slot_tokens=" << slot_tokens
                                        << " frames=" << num_frames
                                        << " sparse=" << (program != nullptr));
        StepDriver driver = Driver(1);
        AttendPrompt(driver, Rows(0, 0, 68, 68), program);
        driver.Unload({.num_pages = 2,
                       .num_frames = num_frames,
                       .slot_tokens = slot_tokens});
        EXPECT_EQ(Generate(driver, tiny_), expected);
        const DrivenSlots& slots = *driver.slots();
        EXPECT_GT(slots.Count(kMissesCount), 0);
        EXPECT_EQ(slots.Count(kPicksCount),
                  slots.Count(kHitsCount) + slots.Count(kMissesCount));
        EXPECT_EQ(slots.Count(kFetchedCount) > 0, num_frames > 0);
        // Where there is room for all, nothing is fetched twice.
        if (num_frames < 5) continue;
        EXPECT_LE(
            slots.Count(kFetchedCount),
            2 * 32 / slot_tokens * config.num_kv_heads * config.num_layers);
      }
    }
  }
}

// Logits of a prompt of 80 tokens whose first token is `first`.
std::vector<float> LogitsWithFirst(Backend& backend, const Model& model,
                                   const TinyCase& tiny, int32_t first) {
  StepDriver driver(backend, model, 1, kMaxTokens);
  driver.Plan(0, kMaxTokens);
  DrivenRows rows = {.request = 0,
                     .first_position = 0,
                     .token_ids = tiny.tokens,
                     .num_prefill_rows = kMaxTokens};
  rows.token_ids[0] = first;
  return driver.Step(std::span(&rows, 1));
}

// Through two layers of window 24 a token reaches 46 positions on, through a
// full layer between windowed ones to the end.
TEST_F(TransformerTest, WindowsAreSetLayerByLayer) {
  ASSERT_EQ(model_->config().windows, (std::vector<int>{24, 0, 24}));
  EXPECT_NE(
      LastRows(LogitsWithFirst(*backend_, *model_, tiny_, 3), 1, vocab()),
      LastRows(LogitsWithFirst(*backend_, *model_, tiny_, 4), 1, vocab()));

  const TinyCase windowed = ReadTinyCase("mistral");
  const TemporaryFolder folder("windowed");
  WriteTinyModel(windowed, folder.path(), {});
  const Model model = Model::Load(folder.path(), {}).value();
  ASSERT_EQ(model.config().windows, (std::vector<int>{24, 24}));
  const std::vector<float> a = LogitsWithFirst(*backend_, model, windowed, 3);
  const std::vector<float> b = LogitsWithFirst(*backend_, model, windowed, 4);
  EXPECT_EQ(LastRows(a, 80 - 47, vocab()), LastRows(b, 80 - 47, vocab()));
  EXPECT_NE(LastRows(a, 80 - 46, vocab()), LastRows(b, 80 - 46, vocab()));
}

TEST_F(TransformerTest, WrongArgumentsAreABug) {
  const Activations activations =
      Activations::Allocate(*backend_, *model_,
                            {.max_rows = 1, .max_logit_rows = 1})
          .value();
  const auto queue = backend_->MakeQueue();
  ForwardArgs args;
  args.end_layer = 4;
  EXPECT_DEATH(Forward(*backend_, *queue, *model_, args, activations),
               "first_layer=0 end_layer=4 num_layers=3");
  args.end_layer = 3;
  EXPECT_DEATH(Forward(*backend_, *queue, *model_, args, activations),
               "layers=0 num_layers=3");
}

}  // namespace
}  // namespace winnow
