#include "cache/device_page_table.h"

#include <gtest/gtest.h>

#include <random>

#include "backend/cpu/cpu_backend.h"

namespace winnow {
namespace {

using Rows = std::vector<std::vector<ExtentId>>;

class DevicePageTableTest : public ::testing::Test {
 protected:
  int64_t Write(const Rows& rows) {
    std::vector<std::span<const ExtentId>> pages(rows.begin(), rows.end());
    return table_.Write(*queue_, pages);
  }
  void ExpectSays(const Rows& rows) {
    for (size_t row = 0; row < rows.size(); ++row) {
      const auto* entries =
          table_.view().Row<uint32_t>(static_cast<int64_t>(row));
      for (size_t i = 0; i < rows[row].size(); ++i) {
        ASSERT_EQ(entries[i], rows[row][i].value())
            << "row " << row << " page " << i;
      }
    }
  }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
  std::unique_ptr<Queue> queue_ = backend_->MakeQueue();
  DevicePageTable table_ =
      std::move(DevicePageTable::Create(*backend_, 3, 8, 10)).value();
};

ExtentId E(uint32_t id) { return ExtentId(id); }

TEST_F(DevicePageTableTest, SendsOnlyWhatDiffers) {
  EXPECT_EQ(table_.view().dim(0), 3);
  EXPECT_EQ(table_.view().dim(1), 8);
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

TEST_F(DevicePageTableTest, RowsOfAnyRequestsInAnyOrder) {
  std::mt19937_64 random(4);
  for (int step = 0; step < 500; ++step) {
    Rows rows(random() % 4);
    for (auto& row : rows) {
      row.resize(random() % 9);
      for (ExtentId& id : row) id = E(static_cast<uint32_t>(random() % 3));
    }
    Write(rows);
    ExpectSays(rows);
    ASSERT_FALSE(HasFailure()) << "seed 4 step " << step;
  }
}

TEST_F(DevicePageTableTest, TooLargeATableNamesItsSize) {
  const auto table = DevicePageTable::Create(*backend_, 1 << 30, 1 << 30, 10);
  ASSERT_FALSE(table.ok());
  EXPECT_NE(table.error().message.find(
                "page tables of 1073741824 requests of 1073741824 pages"),
            std::string::npos)
      << table.error().message;
}

using DevicePageTableDeathTest = DevicePageTableTest;

TEST_F(DevicePageTableDeathTest, ABugStopsTheProgram) {
  EXPECT_DEATH(Write(Rows(4)), "requests=4 max_requests=3");
  EXPECT_DEATH(Write({std::vector<ExtentId>(9)}), "row=0 pages=9 max_pages=8");
  EXPECT_DEATH(Write({{E(3), E(10)}}), "row=0 page=1 extent=10 num_extents=10");
}

}  // namespace
}  // namespace winnow
