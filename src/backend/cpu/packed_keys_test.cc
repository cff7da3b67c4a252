#include "backend/cpu/packed_keys.h"

#include <gtest/gtest.h>

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

void ExpectPacked(const TileKeys& unit, const TileKeys& packed) {
  const auto row_bytes = [](int stride) {
    return static_cast<size_t>(stride) * sizeof(float);
  };
  int next = 0;
  for (int key = 0; key < kTileKeys; ++key) {
    if (!IsPicked(unit, key)) continue;
    ASSERT_TRUE(IsPicked(packed, next)) << next;
    EXPECT_EQ(std::memcmp(RowOf(unit.k, unit.k_stride, key),
                          RowOf(packed.k, packed.k_stride, next),
                          row_bytes(unit.k_stride)),
              0)
        << "key " << key;
    EXPECT_EQ(std::memcmp(RowOf(unit.v, unit.v_stride, key),
                          RowOf(packed.v, packed.v_stride, next),
                          row_bytes(unit.v_stride)),
              0)
        << "value " << key;
    ++next;
  }
  EXPECT_EQ(packed.begin, 0);
  EXPECT_EQ(packed.end, next);
  EXPECT_TRUE(packed.picked);
  for (int key = next; key < kTileKeys; ++key) {
    EXPECT_FALSE(IsPicked(packed, key)) << key;
  }
}

TEST(PackedKeysTest, HasTheTokensThatAreScatteredInTheirOrder) {
  std::mt19937 random(7);
  int num_packed = 0, num_of_two_halves = 0;
  for (int round = 0; round < 400; ++round) {
    NumberedUnit numbered(round % 2 == 0);
    uint32_t tokens[kTilePages];
    for (uint32_t& of_page : tokens) {
      of_page = static_cast<uint32_t>(random() & random() & random());
      if (random() % 4 == 0) of_page &= 0xff00ff00;
    }
    if (!PackedKeys::AreScattered(tokens)) continue;
    const TileKeys unit = numbered.Of(tokens);
    const PackedKeys packer = numbered.Packed();
    const TileKeys packed = packer.Find(unit);
    packer.Pack(unit);
    ExpectPacked(unit, packed);
    ++num_packed;
    num_of_two_halves += packed.end > kHalfTokens ? 1 : 0;
  }
  EXPECT_GT(num_packed, 50);
  EXPECT_GT(num_of_two_halves, 10);
}

TEST(PackedKeysTest, APageIsTheMost) {
  NumberedUnit numbered(false);
  const uint32_t tokens[] = {0x000f000f, 0x00f000f0, 0x0f000f00, 0xf000f000};
  ASSERT_TRUE(PackedKeys::AreScattered(tokens));
  const TileKeys unit = numbered.Of(tokens);
  const PackedKeys packer = numbered.Packed();
  const TileKeys packed = packer.Find(unit);
  packer.Pack(unit);
  ExpectPacked(unit, packed);
  EXPECT_EQ(packed.end, kTilePageTokens);
}

// So that what reads everything, or all that a window leaves, has one
// arithmetic.
TEST(PackedKeysTest, ARunOfTokensIsNotScattered) {
  for (int begin = 0; begin < kTileKeys; ++begin) {
    for (int end = begin; end <= kTileKeys; ++end) {
      uint32_t tokens[kTilePages] = {};
      for (int key = begin; key < end; ++key) {
        tokens[key / kTilePageTokens] |= uint32_t{1} << key % kTilePageTokens;
      }
      ASSERT_FALSE(PackedKeys::AreScattered(tokens)) << begin << ".." << end;
    }
  }
}

TEST(PackedKeysTest, ScatteredIsWhatLeavesAThirdOfTheHalves) {
  EXPECT_TRUE(PackedKeys::AreScattered({1, 0, 2, 4}));
  EXPECT_FALSE(PackedKeys::AreScattered({1, 0, 2, 0}));
  EXPECT_TRUE(PackedKeys::AreScattered({0x10001, 0x10001, 0x10000, 0x7ff}));
  // Seventeen tokens are two halves, of five.
  EXPECT_FALSE(PackedKeys::AreScattered({0x10001, 0x10001, 0, 0x1fff}));
  EXPECT_FALSE(PackedKeys::AreScattered({0, 0, 0, 0}));
  // A token more than a page.
  EXPECT_FALSE(PackedKeys::AreScattered(
      {0x000f000f, 0x00f000f0, 0x0f000f00, 0xf000f001}));
}

}  // namespace
}  // namespace winnow
