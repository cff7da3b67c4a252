#include "engine/residency/prefix_cache.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

class PrefixRootTest : public testing::Test {
 protected:
  std::string RootOf(const Request& request,
                     const Selector* selector = nullptr) const {
    const Sequence sequence(SequenceId(1), request, rope_, nullptr);
    return PrefixRoot(sequence, selector);
  }
  static Request Ask(int num_tokens, int selector = -1, std::string salt = "") {
    Request request;
    request.prompt.assign(static_cast<size_t>(num_tokens), 5);
    request.max_tokens = 1;
    request.selector = selector;
    request.cache_salt = std::move(salt);
    return request;
  }

  RequestRope rope_ = {.inverse_frequencies = {1.0f, 0.5f}, .scale = 1.0f};
};

TEST_F(PrefixRootTest, SaltsAndRotationsAreApart) {
  const std::string root = RootOf(Ask(100));
  EXPECT_EQ(RootOf(Ask(7)), root);
  EXPECT_NE(RootOf(Ask(100, -1, "a")), root);
  EXPECT_NE(RootOf(Ask(100, -1, "a")), RootOf(Ask(100, -1, "b")));
  EXPECT_NE(RootOf(Ask(100, -1, std::string(1, '\0'))), root);
  rope_.inverse_frequencies[1] = 0.25f;
  EXPECT_NE(RootOf(Ask(100)), root);
  rope_.inverse_frequencies[1] = 0.5f;
  rope_.scale = 1.5f;
  EXPECT_NE(RootOf(Ask(100)), root);
}

TEST_F(PrefixRootTest, ASelectorCountsWhereItActsInThePrompt) {
  Selector selector;
  selector.program.dense_len = 64;
  const std::string root = RootOf(Ask(100));
  EXPECT_EQ(RootOf(Ask(100, 0), &selector), root);
  selector.program.in_prompt = true;
  EXPECT_EQ(RootOf(Ask(63, 0), &selector), root);
  const std::string chosen = RootOf(Ask(64, 0), &selector);
  EXPECT_NE(chosen, root);
  EXPECT_NE(RootOf(Ask(64, 1), &selector), chosen);
  EXPECT_EQ(RootOf(Ask(640, 0), &selector), chosen);
}

}  // namespace
}  // namespace winnow
