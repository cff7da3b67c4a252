#include "backend/cpu/attend/halves_in_turn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <vector>

namespace winnow {
namespace {

constexpr int kFar = 8, kNear = 3;  // halves
constexpr int kHalfBytes = kFarBytes / kFar;
constexpr int kUnitBytes = kMaxItemHeads * 2 * kTileHalves * kHalfBytes;

// What is read of a unit of K and V: all, or some.
TileKeys WholeUnit() {
  TileKeys keys;
  keys.v_dim = 16;
  keys.end = kTileKeys;
  return keys;
}

TileKeys DrawUnit(std::mt19937& random) {
  TileKeys keys = WholeUnit();
  if (random() % 2 == 0) {
    keys.end = 1 + static_cast<int>(random() % kTileKeys);
    keys.begin = static_cast<int>(random() % 2) * (keys.end / 2);
    keys.picked = random() % 2 == 0;
  }
  for (uint32_t& tokens : keys.tokens) {
    tokens = random() % 3 == 0 ? 0xffff0000 : ~uint32_t{0};
  }
  return keys;
}

bool IsRead(const TileKeys& keys, int half) {
  const bool inside =
      half >= keys.begin / kHalfTokens && half * kHalfTokens < keys.end;
  const bool picked = (keys.tokens[half / 2] >> half % 2 * 16 & 0xffff) != 0;
  return inside && (!keys.picked || picked);
}

// Units of some KV heads whose slices are neighbours: K, then V. What is not
// read has no address.
std::vector<TileKeys> UnitsAt(const std::byte* base, int num_heads,
                              const TileKeys& shape) {
  std::vector<TileKeys> units(static_cast<size_t>(num_heads), shape);
  for (int head = 0; head < num_heads; ++head) {
    for (int i = 0; i < kTileHalves; ++i) {
      if (!IsRead(shape, i)) continue;
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

// What a kernel reads of pages [begin, end), in its order.
std::vector<const std::byte*> ReadHalves(const TileKeys& keys, int begin,
                                         int end) {
  std::vector<const std::byte*> read;
  for (const auto* halves : {keys.k, keys.v}) {
    for (int i = begin * kPageHalves; i < end * kPageHalves; ++i) {
      if (IsRead(keys, i)) read.push_back(halves[i]);
    }
  }
  return read;
}

// Reads units of which each is added while the one before is read, and holds
// what stands ahead to what was read later. Units of one base follow one
// another in memory, so that halves in turn ascend.
TEST(HalvesInTurnTest, WhatStandsAheadIsReadLater) {
  std::mt19937 random(3);
  std::vector<std::byte> memory(8 * kUnitBytes);
  for (int round = 0; round < 100; ++round) {
    const int pages_at_once = round % 2 == 0 ? 1 : 3 + round / 2 % 2;
    HalvesInTurn turn(kNear * kHalfBytes, kHalfBytes, pages_at_once);
    std::vector<const std::byte*> read;
    size_t end = 0;
    struct Wanted {
      const std::byte* half;
      size_t at;
    };
    std::vector<Wanted> ahead;
    std::vector<TileKeys> units = UnitsAt(memory.data(), 3, DrawUnit(random));
    turn.Add(units);
    for (int unit = 1; unit <= 8; ++unit) {
      const int num_heads = 1 + static_cast<int>(random() % kMaxItemHeads);
      std::vector<TileKeys> next;
      if (unit < 8) {
        next = UnitsAt(memory.data() + unit * kUnitBytes, num_heads,
                       DrawUnit(random));
      }
      turn.Add(next);
      end = read.size();
      for (const auto* some : {&units, &next}) {
        for (const TileKeys& keys : *some) {
          end += ReadHalves(keys, 0, kTilePages).size();
        }
      }
      const auto expect = [&](const std::byte* half, size_t at) {
        ahead.push_back({half, std::min(at, end - 1)});
      };
      turn.Attend(units, [&](size_t head, int page, int end_page) {
        ASSERT_EQ(end_page, std::min(page + pages_at_once, kTilePages));
        const TileKeys& keys = units[head];
        const auto halves = ReadHalves(keys, page, end_page);
        EXPECT_FALSE(halves.empty());
        for (int i = 0; i < std::ssize(halves); ++i) {
          const size_t at = read.size();
          for (int again = 0; again <= kFarAgain; ++again) {
            expect(keys.ahead.far[i - again], at + kFar - again);
          }
          expect(keys.ahead.near[i], at + kNear);
          read.push_back(halves[static_cast<size_t>(i)]);
        }
      });
      units = next;
    }
    ASSERT_EQ(read.size(), end);
    for (const Wanted& wanted : ahead) {
      EXPECT_EQ(wanted.half, read[wanted.at])
          << "round=" << round << " half " << wanted.at << " of "
          << read.size();
    }
    if (pages_at_once > 1) continue;
    EXPECT_TRUE(std::ranges::is_sorted(read)) << "round=" << round;
  }
}

// Halves greater than the distance are fetched a page ahead from near and two
// from afar, and tiny ones no further than there is room for.
TEST(HalvesInTurnTest, DistancesAreHalvesAtLeastAndAtMost) {
  std::vector<std::byte> memory(2 * kUnitBytes);
  std::vector<TileKeys> units = UnitsAt(memory.data(), 2, WholeUnit());
  std::vector<const std::byte*> halves;
  for (const TileKeys& keys : units) {
    std::ranges::copy(ReadHalves(keys, 0, kTilePages),
                      std::back_inserter(halves));
  }
  struct Case {
    int64_t half_bytes;
    size_t far, near;
  };
  for (const Case& of :
       {Case{1 << 20, 2 * kPageHalves, kPageHalves}, Case{1, 16, 16}}) {
    HalvesInTurn turn(4096, of.half_bytes, kTilePages);
    turn.Add(units);
    int num_calls = 0;
    turn.Attend(units, [&](size_t unit, int, int) {
      ++num_calls;
      const size_t first = unit * halves.size() / 2;
      const HalvesAhead& ahead = units[unit].ahead;
      EXPECT_EQ(ahead.far[0],
                halves[std::min(first + of.far, halves.size() - 1)]);
      EXPECT_EQ(ahead.near[0],
                halves[std::min(first + of.near, halves.size() - 1)]);
    });
    EXPECT_EQ(num_calls, 2);
  }
}

TEST(HalvesInTurnTest, NothingStandsAheadOfWhatWasNotAdded) {
  std::vector<std::byte> memory(kUnitBytes);
  std::vector<TileKeys> units = UnitsAt(memory.data(), 1, WholeUnit());
  HalvesInTurn turn(4096, kHalfBytes, 1);
  turn.Add(units);
  int num_calls = 0;
  turn.Attend(units, [&](size_t, int, int) { ++num_calls; });
  ASSERT_NE(units[0].ahead.far, nullptr);
  turn.Attend(units, [&](size_t, int, int) {
    ++num_calls;
    EXPECT_EQ(units[0].ahead.far, nullptr);
  });
  EXPECT_EQ(num_calls, 2 * kTilePages);
}

}  // namespace
}  // namespace winnow
