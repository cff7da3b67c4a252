#include "cli/generate/batch_progress.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(BatchProgressTest, OnePromptIsReadAndThenGenerates) {
  BatchProgress batch({100});
  batch.OnRead(0, 60);
  batch.EndStep(3);
  batch.OnRead(0, 100);
  batch.OnToken(0);
  batch.EndStep(2);
  EXPECT_EQ(batch.num_read(), 100);
  EXPECT_EQ(batch.num_generated(), 0);
  EXPECT_EQ(batch.generating_seconds(), 0);
  for (int i = 0; i < 4; ++i) {
    batch.OnToken(0);
    batch.EndStep(0.5);
  }
  EXPECT_EQ(batch.reading_seconds(), 5);
  EXPECT_EQ(batch.num_generated(), 4);
  EXPECT_EQ(batch.generating_seconds(), 2);
}

// One after another: the wait of the second is the first one's generating.
TEST(BatchProgressTest, TimeBelongsToWhatAStepDid) {
  BatchProgress batch({10, 20});
  EXPECT_EQ(batch.num_prompt_tokens(), 30);
  for (const size_t prompt : {0u, 1u}) {
    batch.OnRead(prompt, prompt == 0 ? 10 : 20);
    batch.OnToken(prompt);
    batch.EndStep(1);
    batch.OnToken(prompt);
    batch.EndStep(0.25);
  }
  EXPECT_EQ(batch.num_read(), 30);
  EXPECT_EQ(batch.reading_seconds(), 2);
  EXPECT_EQ(batch.num_generated(), 2);
  EXPECT_EQ(batch.generating_seconds(), 0.5);
}

TEST(BatchProgressTest, AMixedStepCountsForBoth) {
  BatchProgress batch({10, 20});
  batch.OnToken(0);
  batch.EndStep(1);
  batch.OnToken(0);
  batch.OnRead(1, 5);
  batch.EndStep(2);
  EXPECT_EQ(batch.reading_seconds(), 3);
  EXPECT_EQ(batch.generating_seconds(), 2);
}

TEST(BatchProgressTest, AStepThatOnlyWritesToADiskIsNoOnes) {
  BatchProgress batch({50});
  batch.EndStep(7);
  EXPECT_EQ(batch.reading_seconds(), 0);
  EXPECT_EQ(batch.generating_seconds(), 0);
}

}  // namespace
}  // namespace winnow
