#include "backend/cpu/select/packed_keys.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>
#include <vector>

namespace winnow {
namespace {

constexpr int kKeyNumbers = 24, kValueNumbers = 40;

// A unit of four pages whose keys and values are numbered floats.
class NumberedUnit {
 public:
  explicit NumberedUnit(bool v_in_k)
      : v_in_k_(v_in_k),
        k_(static_cast<size_t>(kTileKeys) * kKeyNumbers),
        v_(static_cast<size_t>(kTileKeys) * kValueNumbers),
        scratch_(size_t{1} << 20) {
    for (size_t i = 0; i < k_.size(); ++i) k_[i] = static_cast<float>(i);
    for (size_t i = 0; i < v_.size(); ++i) v_[i] = -static_cast<float>(i);
  }

  TileKeys Of(const uint32_t (&tokens)[kTilePages]) const {
    TileKeys unit;
    unit.k_dim = unit.k_stride = kKeyNumbers;
    unit.v_dim = v_in_k_ ? 16 : kValueNumbers;
    unit.v_stride = v_in_k_ ? kKeyNumbers : kValueNumbers;
    unit.picked = true;
    unit.end = kTileKeys;
    std::memcpy(unit.tokens, tokens, sizeof(tokens));
    for (int half = 0; half < kTileHalves; ++half) {
      unit.k[half] = Bytes(k_, half * kHalfTokens * unit.k_stride);
      unit.v[half] = v_in_k_ ? unit.k[half]
                             : Bytes(v_, half * kHalfTokens * kValueNumbers);
    }
    return unit;
  }

  PackedKeys Packed() {
    ScratchCutter cutter(scratch_.data(), scratch_.size());
    return {{.k_stride = kKeyNumbers,
             .v_stride = v_in_k_ ? 0 : kValueNumbers,
             .element_bytes = sizeof(float)},
            cutter};
  }

 private:
  static const std::byte* Bytes(const std::vector<float>& numbers, int at) {
    return reinterpret_cast<const std::byte*>(numbers.data() + at);
  }

  const bool v_in_k_;
  std::vector<float> k_, v_;
  std::vector<std::byte> scratch_;
};

// Row `key` of what has 16 rows at each of `halves`.
const std::byte* RowOf(const std::byte* const (&halves)[kTileHalves],
                       int stride, int key) {
  return halves[key / kHalfTokens] +
         int64_t{key % kHalfTokens} * stride * int64_t{sizeof(float)};
}

bool IsPicked(const TileKeys& unit, int key) {
  return (unit.tokens[key / kTilePageTokens] >> key % kTilePageTokens & 1) != 0;
}

std::vector<Pick> PicksOf(const std::vector<uint32_t>& tokens) {
  std::vector<Pick> picks;
  for (size_t i = 0; i < tokens.size(); ++i) {
    picks.push_back({static_cast<uint32_t>(3 * i), tokens[i]});
  }
  return picks;
}

int NumTogether(const std::vector<uint32_t>& tokens) {
  return PackedKeys::NumTogether(PicksOf(tokens));
}

std::vector<uint32_t> Repeated(int count, uint32_t tokens) {
  return std::vector<uint32_t>(static_cast<size_t>(count), tokens);
}

// Packs tiles, and expects their tokens one after the other.
void ExpectPacked(const PackedKeys& packer, const std::vector<TileKeys>& tiles,
                  int* num_tokens) {
  *num_tokens = 0;
  for (const TileKeys& tile : tiles) {
    const int before = *num_tokens;
    *num_tokens = packer.Add(tile, before);
    EXPECT_EQ(*num_tokens, before + PackedKeys::CountTokens(tile));
  }
  const TileKeys packed = packer.Packed(tiles[0], *num_tokens);
  EXPECT_EQ(packed.begin, 0);
  EXPECT_EQ(packed.end, *num_tokens);
  EXPECT_TRUE(packed.picked);
  const auto row_bytes = [](int stride) {
    return static_cast<size_t>(stride) * sizeof(float);
  };
  int next = 0;
  for (const TileKeys& tile : tiles) {
    for (int key = 0; key < kTileKeys; ++key) {
      if (!IsPicked(tile, key)) continue;
      ASSERT_TRUE(IsPicked(packed, next)) << next;
      EXPECT_EQ(std::memcmp(RowOf(tile.k, tile.k_stride, key),
                            RowOf(packed.k, packed.k_stride, next),
                            row_bytes(tile.k_stride)),
                0)
          << "key " << key;
      EXPECT_EQ(std::memcmp(RowOf(tile.v, tile.v_stride, key),
                            RowOf(packed.v, packed.v_stride, next),
                            row_bytes(tile.v_stride)),
                0)
          << "value " << key;
      ++next;
    }
  }
  for (int key = next; key < kTileKeys; ++key) {
    EXPECT_FALSE(IsPicked(packed, key)) << key;
  }
}

TEST(PackedKeysTest, HasTheTokensInTheirOrder) {
  std::mt19937 random(7);
  int num_full = 0, num_of_two_pages = 0;
  for (int round = 0; round < 100; ++round) {
    NumberedUnit numbered(round % 2 == 0);
    std::vector<TileKeys> tiles;
    int num_left = round % 10 == 0 ? kTileKeys : 100;
    for (int tile = 0; tile < 4; ++tile) {
      uint32_t tokens[kTilePages];
      for (uint32_t& of_page : tokens) {
        of_page = static_cast<uint32_t>(random() & random());
        if (random() % 4 == 0) of_page = 0xffu << 8 * (random() % 4);
        while (std::popcount(of_page) > num_left) of_page &= of_page - 1;
        num_left -= std::popcount(of_page);
      }
      tiles.push_back(numbered.Of(tokens));
    }
    int num_tokens = 0;
    ExpectPacked(numbered.Packed(), tiles, &num_tokens);
    num_full += num_tokens == kTileKeys ? 1 : 0;
    num_of_two_pages += num_tokens > kTilePageTokens ? 1 : 0;
  }
  EXPECT_GT(num_full, 3);
  EXPECT_GT(num_of_two_pages, 50);
}

// So that what reads everything, or all that a window leaves, has one
// arithmetic.
TEST(PackedKeysTest, ARunOfTokensIsNotPacked) {
  for (int begin = 0; begin < kTileKeys; ++begin) {
    for (int end = begin + 1; end <= kTileKeys; ++end) {
      std::vector<uint32_t> tokens(kTilePages);
      for (int key = begin; key < end; ++key) {
        tokens[static_cast<size_t>(key / kTilePageTokens)] |=
            uint32_t{1} << key % kTilePageTokens;
      }
      std::erase(tokens, 0u);
      ASSERT_EQ(NumTogether(tokens), 0) << begin << ".." << end;
    }
  }
}

TEST(PackedKeysTest, PacksWhatLeavesTwoThirdsOfTheHalvesAndTwoFewer) {
  EXPECT_EQ(NumTogether({1, 2, 4}), 3);
  EXPECT_EQ(NumTogether({1, 2}), 0);
  // Eight tokens a page: two halves of four.
  EXPECT_EQ(NumTogether(Repeated(4, 0xff00)), 4);
  // Six halves become four, or five.
  EXPECT_EQ(NumTogether({0xffff, 0xff00ff, 0xff00ff, 0xff}), 4);
  EXPECT_EQ(NumTogether({0xffff, 0xffff00ff, 0xffff00ff, 1}), 0);
  // Seven become five.
  EXPECT_EQ(NumTogether({~0u, 0xffff00ff, 0xff00ff, 0xff}), 0);
  EXPECT_EQ(NumTogether({}), 0);
}

TEST(PackedKeysTest, PacksAsManyFoursAsATileHolds) {
  EXPECT_EQ(NumTogether(Repeated(40, 0x10)), PackedKeys::kMaxPicks);
  EXPECT_EQ(NumTogether(Repeated(7, 0x10)), 7);
  EXPECT_EQ(NumTogether(Repeated(16, 0xff)), 16);
  // A token more than a tile has room for.
  std::vector<uint32_t> tokens = Repeated(16, 0xff);
  tokens[15] = 0x1ff;
  EXPECT_EQ(NumTogether(tokens), 12);
  // Whole pages behind what is scattered.
  tokens = Repeated(16, 0x10);
  for (size_t i = 4; i < 8; ++i) tokens[i] = ~0u;
  EXPECT_EQ(NumTogether(tokens), 4);
}

}  // namespace
}  // namespace winnow
