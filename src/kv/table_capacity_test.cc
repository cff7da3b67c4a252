#include "kv/table_capacity.h"

#include <gtest/gtest.h>

#include <random>

#include "kv/kv_cache.h"
#include "kv/slot_ledger.h"

namespace winnow {
namespace {

TEST(TableCapacityTest, PagesThatAreSharedCountForEachOfManyRequests) {
  EXPECT_EQ(NumTablePages({100, 1000, 1}), 1100);
  EXPECT_EQ(NumTablePages({100, 1000, 16}), 2600);
  EXPECT_EQ(NumTablePages({100, 1000, 4096}), 1000 + kTableSharers * 100);
}

// The worst that far pages can do: ranges that begin and end anywhere.
TEST(TableCapacityTest, WhateverIsFarFindsSegments) {
  std::mt19937 random(3);
  const auto below = [&random](int64_t count) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(count));
  };
  for (int run = 0; run < 300; ++run) {
    const TableCapacity room = {
        .num_kv_blocks = 10,
        .num_host_kv_blocks = 1 + below(3000),
        .max_sequences = 1 + static_cast<int>(below(6))};
    SlotLedger ledger({.num_layers = 1,
                       .num_segments = NumSlotSegments(room),
                       .num_chunks = 1,
                       .max_frames = 1});
    int64_t num_left = room.num_host_kv_blocks;
    for (int i = 0; i < room.max_sequences && num_left > 0; ++i) {
      const SequenceId id(static_cast<uint64_t>(i));
      const int64_t first = below(5000);
      const int64_t count = 1 + below(num_left);
      ledger.Open(id);
      ASSERT_TRUE(ledger.Cover(id, first, first + count))
          << "seed 3 run " << run << " sequence " << i;
      num_left -= count;
      // Its first pages come back, others of the host are free for it.
      const int64_t back = below(count + 1);
      ledger.Uncover(id, first + back);
      num_left += back;
    }
    for (int i = 0; i < room.max_sequences; ++i) {
      const SequenceId id(static_cast<uint64_t>(i));
      if (ledger.is_open(id)) ledger.Close(id);
    }
  }
}

TEST(TableCapacityTest, SummariesAreThoseOfThePagesThatThereAre) {
  const auto segments = [](const TableCapacity& tables, int64_t max_tokens) {
    return NumSummarySegments({tables, 1024, max_tokens});
  };
  EXPECT_EQ(segments({3200, 0, 16}, 1 << 20), 100 + 32 + 2);
  EXPECT_EQ(segments({3200, 3200, 16}, 1 << 20), 200 + 32 + 2);
  // Not more than all of them may have.
  EXPECT_EQ(segments({3200, 3200, 16}, 2000), 2 * 16 * 2);
  EXPECT_EQ(NumSummaryTableEntries({{320, 3200, 4}, 1024, 1 << 20}),
            (3200 + 4 * 320) / 32 + 4);
  EXPECT_EQ(NumSummaryTableEntries({{320, 3200, 4}, 1024, 1024}), 4);
}

// All of them may have the same pages, and choose of them for themselves.
TEST(TableCapacityTest, WhatIsFixedIsOfPagesInTables) {
  EXPECT_EQ(NumFixedSegments({{3200, 6400, 4}, 1024, 1 << 20}),
            (6400 + 4 * 3200 + 3200) / 32 + 8);
  EXPECT_EQ(NumFixedSegments({{3200, 6400, 4}, 1024, 2048}), 2 * 4 * 2);
}

// Prefixes that are held, one of them with a fork, and others that run: all of
// any lengths whose pages there are.
TEST(TableCapacityTest, WhateverHasPagesFindsSegments) {
  std::mt19937 random(9);
  const auto below = [&random](int64_t count) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(count));
  };
  for (int run = 0; run < 500; ++run) {
    const int max_sequences = 1 + static_cast<int>(below(4));
    SummaryCapacity room = {
        .tables = {.num_kv_blocks = 2 + below(300),
                   .num_host_kv_blocks = below(2) * below(300),
                   .max_sequences = max_sequences},
        .segment_tokens = below(4) == 0 ? 3000 : 1024,
        .max_tokens = 33 + below(9000)};
    KvCache segments(NumSummarySegments(room), room.segment_tokens);
    int64_t num_left =
        room.tables.num_kv_blocks + room.tables.num_host_kv_blocks;
    uint64_t next = 0;
    // It takes so many pages behind `num_begun` tokens, which it has.
    const auto grow = [&](SequenceId id, int64_t num_begun) {
      const int64_t num_full = num_begun / kPageTokens;
      const int64_t most =
          std::min((num_left + num_full) * kPageTokens, room.max_tokens);
      if (most <= num_begun) return;
      const int64_t num_tokens = most - below(2) * below(most - num_begun);
      num_left -= PagesFor(num_tokens) - num_full;
      std::optional<Reservation> taken = segments.Reserve(std::array<Growth, 1>{
          {{id, static_cast<int>(num_tokens - num_begun)}}});
      ASSERT_TRUE(taken.has_value()) << "seed 9 run " << run;
      taken->Commit();
      segments.Seal(id, static_cast<int>(num_tokens));
    };
    const auto add = [&](int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const SequenceId id(next++);
        segments.Open(id);
        grow(id, 0);
      }
    };
    add(1 + below(max_sequences));
    const SequenceId fork(next++);
    segments.Fork(SequenceId(0), fork);
    grow(fork, segments.num_tokens(fork));
    add(max_sequences - 1);
    for (const SequenceId id : segments.sequences()) segments.Close(id);
  }
}

TEST(TableCapacityTest, WhateverLayersHaveFindsChunks) {
  std::mt19937 random(5);
  const auto below = [&random](int count) {
    return static_cast<int>(random() % static_cast<unsigned>(count));
  };
  for (int run = 0; run < 300; ++run) {
    const int num_layers = 1 + below(5), layer_frames = 1 + below(200);
    const TableCapacity room = {.num_kv_blocks = 1 + below(300),
                                .num_host_kv_blocks = 10,
                                .max_sequences = 1 + below(4)};
    SlotLedger ledger(
        {.num_layers = num_layers,
         .num_segments = 1,
         .num_chunks = NumSlotChunks(room, num_layers, layer_frames),
         .max_frames = num_layers * layer_frames});
    int64_t num_kv_blocks = room.num_kv_blocks;
    for (int64_t i = 0; i < num_kv_blocks; ++i) {
      ledger.Split(KvBlockId(static_cast<uint32_t>(i)));
    }
    for (int i = 0; i < room.max_sequences; ++i) {
      const SequenceId id(static_cast<uint64_t>(i));
      ledger.Open(id);
      // In any layers, as many as it may have and as there are.
      const int64_t most = std::min<int64_t>(int64_t{layer_frames} * num_layers,
                                             ledger.num_free_layer_blocks());
      std::vector<int> frames(static_cast<size_t>(num_layers), 0);
      for (int64_t j = 0; j < most; ++j) {
        ++frames[static_cast<size_t>(below(num_layers))];
      }
      ASSERT_TRUE(ledger.Resize(id, frames)) << "seed 5 run " << run;
    }
    for (int i = 0; i < room.max_sequences; ++i) {
      ledger.Close(SequenceId(static_cast<uint64_t>(i)));
    }
  }
}

}  // namespace
}  // namespace winnow
