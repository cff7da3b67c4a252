#include "sparse/spec/selector.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sparse/spec/selector_case.h"

namespace winnow {
namespace {

TEST(SelectorTest, EveryOneIsMadeUnderItsPlainName) {
  for (const SelectorKind* kind : AllSelectors()) {
    const auto selector = MakeSelector(kind->name, Shape());
    ASSERT_TRUE(selector.ok()) << selector.error().message;
    EXPECT_EQ(selector->is_dense(), kind->name == "dense");
    EXPECT_FALSE(kind->title.empty());
    EXPECT_FALSE(kind->source.empty());
    for (const SelectorParameter& parameter : kind->parameters) {
      // A default that is written out is no other selector.
      const auto again = MakeSelector(
          fmt::format("{}:{}={}", kind->name, parameter.name, parameter.value),
          Shape());
      ASSERT_TRUE(again.ok()) << again.error().message;
      EXPECT_EQ(again->dense, selector->dense);
      EXPECT_EQ(again->keeps, selector->keeps);
      EXPECT_FALSE(parameter.meaning.empty());
    }
  }
  const auto by_name = [](const SelectorKind* a, const SelectorKind* b) {
    return a->name < b->name;
  };
  EXPECT_TRUE(std::ranges::is_sorted(AllSelectors(), by_name));
}

// The published numbers, as algorithms count them.
TEST(SelectorTest, DefaultsArePublished) {
  const SelectProgram infllm = MakeSelector("infllm-v2", Shape())->program;
  EXPECT_EQ(infllm.budget.value / infllm.block_tokens, 96);
  EXPECT_EQ(infllm.forced.recent_tokens / infllm.block_tokens, 32);
  EXPECT_EQ(infllm.normalizer.tokens, 128);
  EXPECT_EQ(infllm.normalizer.stride, 64);
  EXPECT_EQ(infllm.pool.size, 5);
  EXPECT_EQ(infllm.pool.stride, 4);
  EXPECT_EQ(infllm.dense_len, 8192);
  const SelectProgram moba = MakeSelector("moba", Shape())->program;
  EXPECT_EQ(moba.budget.value / moba.block_tokens, 12);
  const SelectProgram snapkv = MakeSelector("snapkv", Shape())->program;
  EXPECT_EQ(snapkv.fixed.budget.value, 2048);
  EXPECT_EQ(snapkv.fixed.window_tokens, 32);
  EXPECT_EQ(snapkv.fixed.pool.size, 5);
  const SelectProgram shadowkv = MakeSelector("shadowkv", Shape())->program;
  EXPECT_EQ(shadowkv.budget.value / shadowkv.block_tokens, 256);
  EXPECT_EQ(shadowkv.fixed.budget.value / shadowkv.block_tokens, 48);
  EXPECT_EQ(shadowkv.forced.recent_tokens / shadowkv.block_tokens, 4);
  const SelectProgram retroinfer = MakeSelector("retroinfer", Shape())->program;
  EXPECT_EQ(retroinfer.block_tokens, 16);
  EXPECT_DOUBLE_EQ(retroinfer.budget.value, 0.018);
  EXPECT_DOUBLE_EQ(retroinfer.estimate.value, 0.232);
  EXPECT_EQ(retroinfer.index.iterations, 9);
  EXPECT_EQ(retroinfer.forced.sink_tokens + retroinfer.forced.recent_tokens,
            68);
  const Selector clusterkv = *MakeSelector("clusterkv", Shape());
  EXPECT_EQ(clusterkv.program.budget.value, 1024);
  EXPECT_EQ(clusterkv.program.index.iterations, 20);
  EXPECT_EQ(clusterkv.ForLayer(1), nullptr);
  const SelectProgram seer = MakeSelector("seerattention-r", Shape())->program;
  EXPECT_EQ(seer.budget.value / seer.block_tokens, 32);
  const Selector quest = *MakeSelector("quest", Shape());
  EXPECT_EQ(quest.ForLayer(1), nullptr);
  ASSERT_NE(quest.ForLayer(2), nullptr);
  EXPECT_EQ(quest.program.block_tokens, 16);
}

// Whatever default is none of the published is said, as it stands: a default
// that moves takes its sentence along.
TEST(SelectorTest, SaysWhichDefaultsAreNotPublished) {
  struct Differing {
    std::string_view name, parameter;
  };
  constexpr Differing kDiffering[] = {
      {"retroinfer", "segment"}, {"clusterkv", "segment"},
      {"clusterkv", "cluster"},  {"mean", "block"},
      {"moba", "dense_layers"},  {"seerattention-r", "budget"},
      {"snapkv", "window"},      {"tidal", "select_layers"}};
  for (const auto& [name, parameter] : kDiffering) {
    const auto kind =
        std::ranges::find(AllSelectors(), name, &SelectorKind::name);
    ASSERT_NE(kind, AllSelectors().end()) << name;
    const auto known = std::ranges::find((*kind)->parameters, parameter,
                                         &SelectorParameter::name);
    ASSERT_NE(known, (*kind)->parameters.end()) << parameter;
    EXPECT_NE(
        (*kind)->differs.find(fmt::format("{}={}", parameter, known->value)),
        std::string_view::npos)
        << name << ": " << (*kind)->differs;
  }
}

TEST(SelectorTest, LayersReadWhatAnEarlierOneChose) {
  SelectorShape shape = Shape();
  shape.num_layers = 12;
  shape.windows.assign(12, 0);
  shape.windows[5] = shape.windows[9] = 512;
  const Selector tidal = *MakeSelector("tidal", shape);
  std::vector<int> reused;
  std::string kinds;
  for (int layer = 0; layer < 12; ++layer) {
    reused.push_back(tidal.ReuseLayer(layer));
    kinds += tidal.ForLayer(layer) == nullptr ? 'd'
             : tidal.KeepsLists(layer)        ? 'k'
                                              : 'r';
  }
  EXPECT_EQ(kinds, "ddkrrdrrrdkr");
  EXPECT_EQ(reused,
            (std::vector<int>{-1, -1, -1, 2, 2, -1, 2, 2, 2, -1, -1, 10}));
  const Selector given = *MakeSelector("tidal:select_layers=0+3", Shape());
  EXPECT_EQ(given.ReuseLayer(2), 0);
  EXPECT_TRUE(given.KeepsLists(3));
  EXPECT_FALSE(MakeSelector("mean", shape)->reuses());
}

TEST(SelectorTest, LayersWithAWindowStayDense) {
  SelectorShape shape = Shape();
  shape.windows = {0, 4096, 0, 0};
  const Selector selector = *MakeSelector("mean", shape);
  EXPECT_NE(selector.ForLayer(0), nullptr);
  EXPECT_EQ(selector.ForLayer(1), nullptr);
  const Selector first = *MakeSelector("mean:dense_layers=0-1", shape);
  EXPECT_EQ(first.dense, (std::vector<bool>{true, true, false, false}));
  EXPECT_EQ(first.reads_all, (std::vector<bool>{true, false, false, false}));
}

// What would be dense attention under another name is refused.
TEST(SelectorTest, SomeLayerReadsWhatIsChosen) {
  const auto error_of = [](std::string_view spec, int num_layers,
                           int num_windows) {
    SelectorShape shape = Shape();
    shape.num_layers = num_layers;
    shape.windows.assign(static_cast<size_t>(num_layers), 0);
    std::fill_n(shape.windows.begin(), num_windows, 4096);
    const auto selector = MakeSelector(spec, shape);
    return selector.ok() ? "" : selector.error().message;
  };
  const std::string why =
      "no layer would read less than everything, which --select dense is for; ";
  EXPECT_EQ(error_of("mean", 4, 4),
            "--select mean: " + why +
                "of the model's 4 layers 4 have a sliding window, dense_layers "
                "is \"none\"");
  EXPECT_EQ(error_of("quest", 2, 0),
            "--select quest: " + why +
                "of the model's 2 layers 0 have a sliding window, dense_layers "
                "is \"0-1\"");
  EXPECT_EQ(error_of("window:dense_layers=2-3", 4, 2),
            "--select window: " + why +
                "of the model's 4 layers 2 have a sliding window, dense_layers "
                "is \"2-3\"");
  EXPECT_EQ(error_of("tidal:select_layers=3", 4, 0),
            "--select tidal: " + why +
                "of the model's 4 layers 0 have a sliding window, "
                "select_layers is \"3\"");
  EXPECT_EQ(error_of("tidal", 4, 4),
            "--select tidal: select_layers must name a layer without a window, "
            "all of the model's 4 have one");
  EXPECT_EQ(error_of("dense", 4, 4), "");
  EXPECT_EQ(error_of("mean", 4, 3), "");
  EXPECT_EQ(error_of("quest", 3, 0), "");
  EXPECT_EQ(error_of("tidal:select_layers=2", 4, 0), "");
}

TEST(SelectorTest, WhatMustBeReadFitsTheContext) {
  SelectorShape shape = Shape();
  shape.max_context_tokens = 1024;
  const auto error_of = [&](std::string_view spec) {
    const auto selector = MakeSelector(spec, shape);
    return selector.ok() ? "" : selector.error().message;
  };
  EXPECT_EQ(error_of("mean:block=2K,budget=64"),
            "--select mean: budget would have to be 2048 tokens (1 x 2048), "
            "more than the context of 1024");
  EXPECT_EQ(error_of("mean:block=1K,budget=64"),
            "--select mean: budget must be at least 1024 tokens (1 x 1024), "
            "is 64");
}

TEST(SelectorTest, SaysWhatIsWrong) {
  EXPECT_NE(ErrorOf("QUEST").find("did you mean \"quest\"?"),
            std::string::npos);
  EXPECT_EQ(ErrorOf("qest"),
            "--select: \"qest\" is unknown, did you mean \"quest\"? There are "
            "auto, arkvale, clusterkv, dense, infllm-v2, mean, moba, oracle, "
            "quest, retroinfer, seerattention-r, shadowkv, snapkv, tidal, "
            "window");
  EXPECT_EQ(ErrorOf("window:sinks=3"),
            "--select window: \"sinks\" is unknown, did you mean \"sink\"? "
            "There are sink, recent, dense_layers");
  EXPECT_EQ(ErrorOf("dense:budget=4"),
            "--select dense: there are no parameters, \"budget\" is given");
  EXPECT_EQ(ErrorOf("mean:budget=0"),
            "--select mean: budget must be at least 32 tokens (1 x 32), is 0");
  EXPECT_EQ(ErrorOf("arkvale:budget=96"),
            "--select arkvale: budget must be at least 128 tokens (4 x "
            "32, what is read whatever its score included), is 96");
  EXPECT_EQ(ErrorOf("mean:budget=256K"),
            "--select mean: budget must be at most the context of 131072 "
            "tokens, is 262144");
  EXPECT_EQ(
      ErrorOf("mean:block=24"),
      "--select mean: block must be a power of two from 8 to 65536, is 24");
  EXPECT_EQ(ErrorOf("quest:heads=all"),
            "--select quest: heads must be one of q, kv, is \"all\"");
  EXPECT_EQ(ErrorOf("quest:dense_layers=0-4"),
            "--select quest: dense_layers must be layers below 4 (\"0-1\", "
            "\"0+5+31\") or none, is \"0-4\"");
  EXPECT_EQ(ErrorOf("snapkv:kernel=4"),
            "--select snapkv: kernel must be odd, from 1 to 63, is 4");
  EXPECT_EQ(ErrorOf("snapkv:window=0"),
            "--select snapkv: window must be from 1 to 1024, is 0");
  EXPECT_EQ(ErrorOf("snapkv:budget=32"),
            "--select snapkv: budget must be at least 33 tokens (more than the "
            "window's 32), is 32");
  EXPECT_EQ(
      ErrorOf("shadowkv:block=64"),
      "--select shadowkv: block must be a power of two from 1 to 32, is 64");
  EXPECT_EQ(ErrorOf("quest:summaries=fp4"),
            "--select quest: summaries must be one of auto, fp8, is \"fp4\"");
  EXPECT_EQ(ErrorOf("tidal:select_layers=none"),
            "--select tidal: select_layers must name a layer of the model's "
            "4, is \"none\"");
  EXPECT_EQ(ErrorOf("tidal:select_layers=4"),
            "--select tidal: select_layers must be layers below 4 (\"0-1\", "
            "\"0+5+31\") or none, is \"4\"");
  EXPECT_EQ(
      ErrorOf("window:recent=0"),
      "--select window: recent must be from 1 to the context of 131072, is 0");
}

TEST(SelectorTest, SaysWhatIsWrongOfGatesAndClusters) {
  EXPECT_EQ(ErrorOf("seerattention-r:threshold=1"),
            "--select seerattention-r: threshold must be from 0 to below 1, "
            "is 1");
  EXPECT_EQ(ErrorOf("seerattention-r:threshold=high"),
            "--select seerattention-r: threshold must be a number, is "
            "\"high\"");
  EXPECT_EQ(ErrorOf("retroinfer:segment=16"),
            "--select retroinfer: segment must be a power of two from 32 to "
            "65536, is 16");
  EXPECT_EQ(ErrorOf("retroinfer:cluster=64"),
            "--select retroinfer: cluster must be a power of two from 1 to 32, "
            "is 64");
  EXPECT_EQ(ErrorOf("clusterkv:iterations=0"),
            "--select clusterkv: iterations must be from 1 to 100, is 0");
  EXPECT_EQ(ErrorOf("clusterkv:budget=32"),
            "--select clusterkv: budget must be at least 64 tokens (2 x "
            "32, what is read whatever its score included), is 32");
}

}  // namespace
}  // namespace winnow
