// Every parameter of every selector is held to the range that `winnow select
// list` prints, and every amount to what it must hold.
#include <gtest/gtest.h>

#include "sparse/spec/selector_case.h"

namespace winnow {
namespace {

using Kind = ParameterRange::Kind;

// The error that is the range's own, and no other parameter's.
std::string RangeErrorOf(const SelectorKind& kind,
                         const SelectorParameter& parameter,
                         std::string_view value) {
  const std::string error =
      ErrorOf(fmt::format("{}:{}={}", kind.name, parameter.name, value));
  const std::string field =
      fmt::format("--select {}: {} must be ", kind.name, parameter.name);
  return error.starts_with(field) ? error.substr(field.size()) : "";
}

void ExpectRange(const SelectorKind& kind, const SelectorParameter& parameter) {
  const ParameterRange& range = parameter.range;
  const std::string text = RangeText(range, kContext);
  const int64_t most =
      range.most == kWholeContext ? int64_t{kContext} : range.most;
  const auto expect_refused = [&](int64_t value) {
    EXPECT_EQ(RangeErrorOf(kind, parameter, fmt::format("{}", value)),
              fmt::format("{}, is {}", text, value));
  };
  const auto expect_taken = [&](int64_t value) {
    const std::string error =
        RangeErrorOf(kind, parameter, fmt::format("{}", value));
    EXPECT_EQ(error.find(text), std::string::npos) << error;
  };
  expect_taken(range.least);
  expect_taken(most);
  if (range.least > 0) expect_refused(range.least - 1);
  switch (range.kind) {
    case Kind::kTokens:
      if (most < int64_t{1} << 30) expect_refused(most + 1);
      break;
    case Kind::kPowerOfTwo:
      expect_refused(2 * most);
      if (most > 3) expect_refused(most / 4 * 3);
      expect_refused(0);
      break;
    case Kind::kOdd:
      expect_refused(most + 1);
      expect_refused(most + 2);
      expect_refused(range.least + 1);
      break;
    default:
      FAIL() << parameter.name;
  }
}

TEST(SelectorRangeTest, EveryNumberIsHeldToWhatTheListSays) {
  int num_tested = 0;
  for (const SelectorKind* kind : AllSelectors()) {
    for (const SelectorParameter& parameter : kind->parameters) {
      SCOPED_TRACE(fmt::format("{}:{}", kind->name, parameter.name));
      const Kind of = parameter.range.kind;
      if (of != Kind::kTokens && of != Kind::kPowerOfTwo && of != Kind::kOdd) {
        continue;
      }
      ExpectRange(*kind, parameter);
      ++num_tested;
    }
  }
  EXPECT_GT(num_tested, 30);
}

TEST(SelectorRangeTest, EveryChoiceIsOneOfThoseThatTheListNames) {
  for (const SelectorKind* kind : AllSelectors()) {
    for (const SelectorParameter& parameter : kind->parameters) {
      if (parameter.range.kind != Kind::kChoice) continue;
      EXPECT_EQ(RangeErrorOf(*kind, parameter, "other"),
                RangeText(parameter.range) + ", is \"other\"");
      for (const std::string_view choice : parameter.range.choices) {
        EXPECT_EQ(RangeErrorOf(*kind, parameter, choice), "") << choice;
      }
    }
  }
}

// Of each amount, whichever it is: neither above the context nor so small a
// share that it holds nothing.
TEST(SelectorRangeTest, EveryAmountIsWithinTheContextAndHoldsABlock) {
  int num_tested = 0;
  for (const SelectorKind* kind : AllSelectors()) {
    for (const SelectorParameter& parameter : kind->parameters) {
      if (parameter.range.kind != Kind::kAmount) continue;
      SCOPED_TRACE(fmt::format("{}:{}", kind->name, parameter.name));
      ++num_tested;
      EXPECT_EQ(RangeErrorOf(*kind, parameter, "999K"),
                fmt::format("at most the context of {} tokens, is {}", kContext,
                            999 * 1024));
      EXPECT_EQ(RangeErrorOf(*kind, parameter, fmt::format("{}", kContext)),
                "");
      EXPECT_EQ(RangeErrorOf(*kind, parameter, "100%"), "");
      const std::string share = RangeErrorOf(*kind, parameter, "0.0001%");
      EXPECT_TRUE(share.starts_with("at least ")) << share;
      EXPECT_TRUE(share.ends_with(", is 0 (0.0001% of the context of 131072)"))
          << share;
      const std::string none = RangeErrorOf(*kind, parameter, "0");
      if (parameter.range.least == 0) {
        EXPECT_EQ(none, "");
      } else {
        EXPECT_TRUE(none.ends_with(", is 0")) << none;
      }
    }
  }
  EXPECT_EQ(num_tested, 14);
}

struct Bound {
  std::string refused, why, taken;
};

// What is forced inside a budget stands in the way of shares as of tokens.
TEST(SelectorRangeTest, ABudgetHoldsWhatIsForced) {
  const Bound kBounds[] = {
      {"arkvale:budget=0.09%", "at least 128 tokens (4 x 32,",
       "arkvale:budget=0.1%"},  // 131 tokens
      {"quest:sink=64,budget=0.05%", "at least 80 tokens (5 x 16,",
       "quest:sink=64,budget=0.07%"},
      {"clusterkv:budget=0.04%", "at least 64 tokens (2 x 32,",
       "clusterkv:budget=0.05%"},
      {"infllm-v2:budget=2175", "at least 2176 tokens (34 x 64,",
       "infllm-v2:budget=2176"},
      {"infllm-v2:budget=1.6%", "at least 2176 tokens (34 x 64,",
       "infllm-v2:budget=1.7%"},
      {"snapkv:budget=0.02%", "at least 33 tokens (more than the window's 32)",
       "snapkv:budget=0.03%"},
      {"moba:budget=3%", "at least 4096 tokens (1 x 4096,", "moba:budget=4%"},
      {"mean:budget=31", "at least 32 tokens (1 x 32)", "mean:budget=32"},
      {"shadowkv:outliers=7", "at least 8 tokens (1 x 8)",
       "shadowkv:outliers=8"},
      {"retroinfer:estimate=15", "at least 16 tokens (1 x 16)",
       "retroinfer:estimate=16"},
      {"mean:sink=999K,budget=4K", "from 0 to the context of 131072",
       "mean:sink=128K,budget=4K"},
      {"window:recent=999K", "from 1 to the context of 131072",
       "window:recent=128K"}};
  for (const Bound& bound : kBounds) {
    const std::string error = ErrorOf(bound.refused);
    EXPECT_NE(error.find(bound.why), std::string::npos)
        << bound.refused << ": " << error;
    EXPECT_EQ(ErrorOf(bound.taken), "");
  }
}

// A default may be above a short context: then everything is read.
TEST(SelectorRangeTest, DefaultsFitAnyContext) {
  SelectorShape shape = Shape();
  shape.max_context_tokens = 64;
  for (const SelectorKind* kind : AllSelectors()) {
    const auto selector = MakeSelector(kind->name, shape);
    EXPECT_TRUE(selector.ok()) << selector.error().message;
  }
  EXPECT_FALSE(MakeSelector("window:recent=2044", shape).ok());
  EXPECT_FALSE(MakeSelector("retroinfer:budget=1.8%", shape).ok());
}

TEST(SelectorRangeTest, OneParameterBoundsAnother) {
  EXPECT_EQ(ErrorOf("infllm-v2:stride=64"),
            "--select infllm-v2: stride must divide kernel 32 and block 64, "
            "is 64");
  EXPECT_EQ(ErrorOf("infllm-v2:kernel=64,stride=64"), "");
}

TEST(SelectorRangeTest, GatesChooseAmongTheBlocksThatTheyWereTrainedFor) {
  EXPECT_EQ(MakeSelector("seerattention-r", Shape())->program.block_tokens, 64);
  for (const char* spec : {"seerattention-r", "seerattention-r:block=auto",
                           "seerattention-r:block=16"}) {
    EXPECT_EQ(MakeSelector(spec, Shape(16))->program.block_tokens, 16) << spec;
  }
  EXPECT_EQ(ErrorOf("seerattention-r:block=64", 16),
            "--select seerattention-r: block must be what the model's gates "
            "were trained with, 16, is 64");
  EXPECT_EQ(ErrorOf("seerattention-r", 48),
            "--select seerattention-r: block of the model's gates must be auto "
            "or a power of two from 8 to 65536, is 48");
}

}  // namespace
}  // namespace winnow
