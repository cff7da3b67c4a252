#include "backend/cpu/fetch_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace winnow {
namespace {

constexpr int kHalfBytes = 64;

// Units of some KV heads whose slices are neighbours: K, then V.
std::vector<TileKeys> UnitsAt(const std::byte* base, int num_heads,
                              std::mt19937& random) {
  TileKeys shape;
  shape.end = kTileKeys;
  // Half of them whole: those have a path of their own.
  if (random() % 2 == 0) {
    shape.end = 1 + static_cast<int>(random() % kTileKeys);
    shape.begin = static_cast<int>(random() % 2) * (shape.end / 2);
    shape.picked = random() % 2 == 0;
  }
  for (uint32_t& tokens : shape.tokens) {
    tokens = random() % 3 == 0 ? 0xffff0000 : ~uint32_t{0};
  }
  std::vector<TileKeys> units(static_cast<size_t>(num_heads), shape);
  for (int head = 0; head < num_heads; ++head) {
    for (int i = 0; i < kTileHalves; ++i) {
      const int page = i / kPageHalves, half = i % kPageHalves;
      const std::byte* slice =
          base + (page * num_heads + head) * 2 * kPageHalves * kHalfBytes;
      units[static_cast<size_t>(head)].k[i] = slice + half * kHalfBytes;
      units[static_cast<size_t>(head)].v[i] =
          slice + (kPageHalves + half) * kHalfBytes;
    }
  }
  return units;
}

// Those that are read, in the order in which a kernel reads them.
std::vector<int> ReadHalves(const TileKeys& keys) {
  std::vector<int> halves;
  for (int i = 0; i < kTileHalves; ++i) {
    const bool inside =
        i >= keys.begin / kHalfTokens && i * kHalfTokens < keys.end;
    const bool picked = (keys.tokens[i / 2] >> i % 2 * 16 & 0xffff) != 0;
    if (inside && (!keys.picked || picked)) halves.push_back(i);
  }
  return halves;
}

std::vector<const std::byte*> InTurn(const TileKeys& keys) {
  std::vector<const std::byte*> all;
  for (const int half : ReadHalves(keys)) all.push_back(keys.k[half]);
  for (const int half : ReadHalves(keys)) all.push_back(keys.v[half]);
  return all;
}

std::vector<HalvesAhead> AheadInTurn(const TileKeys& keys) {
  std::vector<HalvesAhead> all;
  for (const int half : ReadHalves(keys)) all.push_back(keys.ahead_k[half]);
  for (const int half : ReadHalves(keys)) all.push_back(keys.ahead_v[half]);
  return all;
}

// Beside the units of some heads, what they read next stands a page ahead, and
// the units behind them stand once each, in the order of memory, as far as
// there is a half beside which to fetch; then again beside the next halves.
TEST(FetchAheadTest, FetchesWhatFollowsInTheOrderOfMemory) {
  std::mt19937 random(3);
  std::vector<std::byte> memory(size_t{1} << 17);
  for (int round = 0; round < 500; ++round) {
    const int num_heads = 1 + static_cast<int>(random() % kMaxItemHeads);
    std::vector<TileKeys> units = UnitsAt(memory.data(), num_heads, random);
    const std::vector<TileKeys> next =
        UnitsAt(memory.data() + memory.size() / 2, num_heads, random);
    std::vector<const std::byte*> wanted;
    for (const TileKeys& keys : next) {
      for (const std::byte* half : InTurn(keys)) wanted.push_back(half);
    }
    std::ranges::sort(wanted);

    HalvesInMemory far;
    far.Assign(next);
    for (int head = 0; head < num_heads; ++head) {
      const auto at = static_cast<size_t>(head);
      TileKeys& keys = units[at];
      const TileKeys& follows = head + 1 < num_heads ? units[at + 1] : next[0];
      FetchAhead(far.Part(head, num_heads), follows, keys);

      std::vector<const std::byte*> in_turn = InTurn(keys);
      const size_t count = in_turn.size();
      for (const std::byte* half : InTurn(follows)) in_turn.push_back(half);
      const std::vector<HalvesAhead> ahead = AheadInTurn(keys);
      const size_t begin = wanted.size() * at / units.size();
      const size_t end = wanted.size() * (at + 1) / units.size();
      for (size_t i = 0; i < count; ++i) {
        SCOPED_TRACE(testing::Message()
                     << "round=" << round << " head=" << head << " half=" << i);
        EXPECT_EQ(ahead[i].near, i + kPageHalves < in_turn.size()
                                     ? in_turn[i + kPageHalves]
                                     : nullptr);
        for (size_t j = 0; j < kFarHalves; ++j) {
          const std::byte* expected = nullptr;
          if (begin + i >= j && begin + i - j < end) {
            expected = wanted[begin + i - j];
          }
          EXPECT_EQ(ahead[i].far[j], expected) << "far[" << j << "]";
        }
      }
    }
  }
}

// What was handed out last before stands there again first.
TEST(FetchAheadTest, AsksAgainForTheLastOfThePartBefore) {
  std::mt19937 random(4);
  std::vector<std::byte> memory(size_t{1} << 17);
  HalvesInMemory far;
  for (int round = 0; round < 20; ++round) {
    const std::span<const std::byte* const> before = far.Part(0, 1);
    const std::vector<const std::byte*> last(before.end() - 2, before.end());
    far.Assign(UnitsAt(memory.data(), 2, random));
    const std::span<const std::byte* const> part = far.Part(0, 1);
    EXPECT_EQ(std::vector(part.begin(), part.begin() + 2), last);
  }
}

}  // namespace
}  // namespace winnow
