#include "cache/device/device_page_table.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "backend/cpu/cpu_backend.h"

namespace winnow {
namespace {

using Rows = std::vector<std::vector<KvBlockId>>;

class DevicePageTableTest : public ::testing::Test {
 protected:
  int64_t Write(DevicePageTable& table, const Rows& rows) {
    std::vector<std::span<const KvBlockId>> pages(rows.begin(), rows.end());
    return table.Write(*queue_, pages);
  }
  int64_t Write(const Rows& rows) { return Write(table_, rows); }
  static void ExpectSays(const DevicePageTable& table, const Rows& rows) {
    for (size_t row = 0; row < rows.size(); ++row) {
      const uint32_t* entries = table.rows().Row(static_cast<int64_t>(row));
      for (size_t i = 0; i < rows[row].size(); ++i) {
        ASSERT_EQ(entries[i], rows[row][i].value())
            << "row " << row << " page " << i;
      }
    }
  }
  void ExpectSays(const Rows& rows) { ExpectSays(table_, rows); }
  DevicePageTable Table(const DevicePageTableOptions& options) {
    return std::move(DevicePageTable::Create(*backend_, options)).value();
  }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
  std::unique_ptr<Queue> queue_ = backend_->MakeQueue();
  DevicePageTable table_ =
      Table({.max_requests = 3, .num_entries = 300, .num_kv_blocks = 10});
};

KvBlockId E(uint32_t id) { return KvBlockId(id); }

TEST_F(DevicePageTableTest, SendsOnlyWhatDiffers) {
  const Rows first = {{E(0), E(1), E(2)}, {E(0), E(5)}};
  EXPECT_EQ(Write(first), 5);  // memory that was never written is not known
  ExpectSays(first);
  EXPECT_EQ(Write(first), 0);
  const Rows grown = {{E(0), E(1), E(2), E(7)}, {E(0), E(6)}};
  EXPECT_EQ(Write(grown), 2);
  ExpectSays(grown);
  const Rows fewer = {{E(0), E(1)}};
  EXPECT_EQ(Write(fewer), 0);
  EXPECT_EQ(Write(grown), 0);  // what stood beyond the pages still stands
  ExpectSays(grown);
  const Rows other = {{E(3), E(1)}};
  EXPECT_EQ(Write(other), 1);
  EXPECT_EQ(Write(grown), 1);  // and still does
  ExpectSays(grown);
}

// A row that grows has room for it; when it has none, those behind it move.
TEST_F(DevicePageTableTest, RowsGrowInPlaceForAWhile) {
  DevicePageTable table =
      Table({.max_requests = 2, .num_entries = 1000, .num_kv_blocks = 10});
  Rows rows = {std::vector<KvBlockId>(40), std::vector<KvBlockId>(9)};
  EXPECT_EQ(Write(table, rows), 49);
  for (int i = 0; i < 74; ++i) {
    rows[0].push_back(E(3));
    ASSERT_EQ(Write(table, rows), 1) << i;
  }
  rows[0].push_back(E(4));
  EXPECT_EQ(Write(table, rows), 115 + 9);
  ExpectSays(table, rows);
  rows[0].push_back(E(4));
  EXPECT_EQ(Write(table, rows), 1);
  ExpectSays(table, rows);
}

// Up to the last entry, whoever has them.
TEST_F(DevicePageTableTest, RowsOfAnyRequestsInAnyOrder) {
  DevicePageTable table =
      Table({.max_requests = 3, .num_entries = 24, .num_kv_blocks = 10});
  std::mt19937_64 random(4);
  for (int step = 0; step < 2000; ++step) {
    Rows rows(random() % 4);
    size_t num_left = 24;
    for (auto& row : rows) {
      row.resize(random() % (num_left + 1));
      num_left -= row.size();
      for (KvBlockId& id : row) id = E(static_cast<uint32_t>(random() % 3));
    }
    Write(table, rows);
    ExpectSays(table, rows);
    ASSERT_FALSE(HasFailure()) << "seed 4 step " << step;
  }
}

// Nearly full, what is to spare is shared by all: they move once for many
// pages.
TEST_F(DevicePageTableTest, RowsThatLackRoomSeldomMove) {
  constexpr int64_t kCapacity = 4000, kBegun = 900, kRows = 4;
  DevicePageTable table = Table(
      {.max_requests = kRows, .num_entries = kCapacity, .num_kv_blocks = 10});
  std::mt19937_64 random(5);
  Rows rows(kRows, std::vector<KvBlockId>(kBegun));
  Write(table, rows);
  int64_t num_sent = 0;
  for (int64_t i = kRows * kBegun; i < kCapacity - 8; ++i) {
    rows[std::min<size_t>(random() % 7, kRows - 1)].push_back(E(3));
    num_sent += Write(table, rows);
    ExpectSays(table, rows);
  }
  // 392 pages, and what has moved for them: half of all each time is 700,000.
  EXPECT_LT(num_sent, 15 * kCapacity);
}

// Requests come, grow by chunks and pages, and go, with room to spare and with
// none.
TEST_F(DevicePageTableTest, RequestsThatGrow) {
  std::mt19937_64 random(8);
  const auto below = [&random](uint64_t count) { return random() % count; };
  for (int run = 0; run < 20; ++run) {
    const auto capacity = static_cast<int64_t>(300 + below(700));
    DevicePageTable table = Table(
        {.max_requests = 5, .num_entries = capacity, .num_kv_blocks = 1 << 20});
    Rows rows;
    uint32_t next = 0;
    const auto num_used = [&rows] {
      return std::accumulate(
          rows.begin(), rows.end(), int64_t{0},
          [](int64_t sum, const auto& row) { return sum + std::ssize(row); });
    };
    for (int step = 0; step < 300; ++step) {
      if (rows.size() < 5 && below(4) == 0) rows.emplace_back();
      if (!rows.empty() && below(30) == 0) {
        rows.erase(rows.begin() + static_cast<int64_t>(below(rows.size())));
      }
      for (auto& row : rows) {
        const size_t more = below(8) == 0 ? below(90) : below(2);
        for (size_t i = 0; i < more && num_used() < capacity; ++i) {
          row.push_back(E(next++ % (1 << 20)));
        }
      }
      Write(table, rows);
      ExpectSays(table, rows);
      ASSERT_FALSE(HasFailure()) << "seed 8 run " << run << " step " << step;
    }
  }
}

TEST_F(DevicePageTableTest, TooLargeATableNamesItsSize) {
  const auto table =
      DevicePageTable::Create(*backend_, {.max_requests = 7,
                                          .num_entries = int64_t{1} << 60,
                                          .num_kv_blocks = 10});
  ASSERT_FALSE(table.ok());
  EXPECT_NE(table.error().message.find(
                "page tables of 7 requests, 1152921504606846976 pages in all"),
            std::string::npos)
      << table.error().message;
}

using DevicePageTableDeathTest = DevicePageTableTest;

TEST_F(DevicePageTableDeathTest, ABugStopsTheProgram) {
  EXPECT_DEATH(Write(Rows(4)), "requests=4 max_requests=3");
  EXPECT_DEATH(Write({{E(3), E(10)}}),
               "row=0 page=1 KV block=10 num_kv_blocks=10");
  DevicePageTable table =
      Table({.max_requests = 2, .num_entries = 10, .num_kv_blocks = 10});
  EXPECT_DEATH(
      Write(table, {std::vector<KvBlockId>(4), std::vector<KvBlockId>(7)}),
      "pages=11 num_entries=10");
}

}  // namespace
}  // namespace winnow
