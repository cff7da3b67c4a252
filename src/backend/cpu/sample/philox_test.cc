#include "backend/cpu/sample/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace winnow {
namespace {

using Block = std::array<uint32_t, 4>;

// The known answers that the authors publish with Random123 (kat_vectors).
TEST(PhiloxTest, GivesThePublishedAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, SeedIsTheKeyAndDrawTheCounter) {
  EXPECT_EQ(RandomBits(0, 0), 0xe169c58d6627e8d5u);
  const Block block = Philox4x32({4, 3, 0, 0}, {2, 1});
  EXPECT_EQ(RandomBits((1ull << 32) + 2, (3ull << 32) + 4),
            block[0] + (static_cast<uint64_t>(block[1]) << 32));
}

// Neighbouring seeds and draws: all different, each bit set half the time.
// 65,536 numbers, so a bit's count has a standard deviation of 128.
TEST(PhiloxTest, NeighboursAreUnlike) {
  std::set<uint64_t> numbers;
  std::array<int, 64> times_set = {};
  for (uint64_t seed = 0; seed < 256; ++seed) {
    for (uint64_t draw = 0; draw < 256; ++draw) {
      const uint64_t bits = RandomBits(seed, draw);
      numbers.insert(bits);
      for (size_t i = 0; i < 64; ++i) {
        times_set[i] += static_cast<int>(bits >> i & 1);
      }
    }
  }
  EXPECT_EQ(numbers.size(), 65536u);
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_NEAR(times_set[i], 32768, 5 * 128) << "bit " << i;
  }
}

}  // namespace
}  // namespace winnow
