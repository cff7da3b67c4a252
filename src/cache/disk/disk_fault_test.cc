// Random schedules over a disk that fails, loses power and turns bits over:
// whatever is read is what was written. 500 schedules, or as many as the
// environment's WINNOW_DISK_SCHEDULES says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/faulty_folder.h"
#include "cache/disk/disk_store.h"
#include "cache/disk/disk_test_pieces.h"

namespace winnow {
namespace {

// What a schedule may meet.
struct Weather {
  bool has_faults = false;  // of transfers and calls
  bool has_flips = false;
  bool has_deaths = false;  // of the process and the machine

  bool is_calm() const { return !has_faults && !has_flips && !has_deaths; }
};

struct Reading {
  TestText text;
  size_t page = 0;
  TestTarget target;
};

// One disk, and the stores that open it one after another.
class World {
 public:
  World(uint32_t seed, const Weather& weather)
      : random_(seed), weather_(weather), disk_(seed + 1) {
    piece_bytes_ = 1 + Below(9000);
    Open();
  }

  void Act();
  // All that is found stays found when the store is opened again, and nothing
  // is left behind.
  void End();
  int num_hits() const { return num_hits_; }

 private:
  int Below(int bound) {
    return std::uniform_int_distribution<int>(0, bound - 1)(random_);
  }
  void Open();
  void Die();
  void Write();
  void Read();
  void Take(bool wait);
  void Land(const PieceDone& done);
  void DrawFaults();
  std::vector<DiskPlace> Find(const TestText& text) const {
    return store_->Find(text.path(), text.num_pages(), kinds_);
  }
  void ExpectInvariants() {
    const std::vector<std::string> broken =
        BrokenInvariants(store_->index().Snapshot());
    EXPECT_TRUE(broken.empty()) << broken.front();
  }

  std::mt19937 random_;
  const Weather weather_;
  FaultyDisk disk_;
  const std::vector<PageKind> kinds_ = {0, 1};
  int64_t piece_bytes_ = 0;
  std::map<uint64_t, std::unique_ptr<Reading>> readings_;  // by ticket
  std::map<uint64_t, std::vector<std::byte>> writings_;    // by ticket
  std::vector<TestText> written_;
  int num_hits_ = 0;
  std::unique_ptr<DiskStore> store_;  // last: it goes before what it reads into
};

void World::Open() {
  const DiskSlotLayout layout(piece_bytes_);
  const int64_t num_slots = 2 + Below(12);
  const DiskStoreOptions options = {
      .header = {.made_with = {{"model", "a tiny model"}},
                 .piece_bytes = piece_bytes_},
      .max_bytes = num_slots * layout.slot_bytes + Below(4096),
      .staging_bytes = (1 + Below(4)) * layout.slot_bytes,
      .has_own_thread = false};
  Result<std::unique_ptr<DiskStore>> opened =
      DiskStore::Open(disk_.Open(), options);
  if (!opened.ok()) {
    ASSERT_TRUE(weather_.has_faults) << opened.error().message;
    EXPECT_EQ(opened.error().message.find('\n'), std::string::npos);
    disk_.faults() = {};
    opened = DiskStore::Open(disk_.Open(), options);
  }
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  store_ = *std::move(opened);
}

void World::Die() {
  disk_.KillProcess();
  store_.reset();
  readings_.clear();
  writings_.clear();
  if (Below(2) == 0) disk_.LosePower();
  Open();
}

void World::Write() {
  const TestText text = DrawText(random_, 5);
  const auto first = static_cast<size_t>(
      Below(3) == 0 ? Below(static_cast<int>(text.num_pages())) : 0);
  std::vector<std::vector<std::byte>> pieces;
  std::vector<std::span<const std::byte>> sources;
  for (size_t page = first; page < text.num_pages(); ++page) {
    pieces.push_back(PieceOf(text, page, piece_bytes_));
    sources.push_back(pieces.back());
  }
  for (const DiskTicket& ticket :
       store_->Write(text.path(), text.kinds, first, sources)) {
    ASSERT_GE(ticket.page, first);
    writings_[ticket.ticket] = std::move(pieces[ticket.page - first]);
  }
  written_.push_back(text);
}

void World::Read() {
  TestText text = written_.empty() || Below(4) == 0
                      ? DrawText(random_, 5)
                      : written_[static_cast<size_t>(
                            Below(static_cast<int>(written_.size())))];
  const std::vector<DiskPlace> found = Find(text);
  std::vector<std::unique_ptr<Reading>> readings;
  std::vector<std::span<std::byte>> targets;
  for (size_t page = 0; page < found.size(); ++page) {
    text.kinds[page] = found[page].kind;
    const int64_t skew = Below(3) == 0 ? Below(64) : 0;
    readings.push_back(std::make_unique<Reading>(
        Reading{text, page, TestTarget(piece_bytes_, skew)}));
    targets.push_back(readings.back()->target.piece());
  }
  for (const DiskTicket& ticket : store_->Read(found, targets)) {
    readings[ticket.page]->text.kinds = text.kinds;
    readings_[ticket.ticket] = std::move(readings[ticket.page]);
  }
}

void World::Take(bool wait) {
  const int64_t num_before = store_->num_under_way();
  const std::vector<PieceDone> taken = wait ? store_->Wait() : store_->Poll();
  if (wait && num_before > 0) {
    EXPECT_FALSE(taken.empty());
  }
  for (const PieceDone& done : taken) Land(done);
}

void World::Land(const PieceDone& done) {
  if (weather_.is_calm()) {
    EXPECT_TRUE(done.status.ok()) << done.status.error().message;
  }
  if (writings_.erase(done.ticket) > 0) return;
  const auto found = readings_.find(done.ticket);
  ASSERT_NE(found, readings_.end()) << "ticket " << done.ticket;
  const Reading& reading = *found->second;
  EXPECT_TRUE(reading.target.stays_within()) << "page " << reading.page;
  if (done.status.ok()) {
    EXPECT_TRUE(
        std::ranges::equal(reading.target.piece(),
                           PieceOf(reading.text, reading.page, piece_bytes_)))
        << "page " << reading.page;
    ++num_hits_;
  }
  readings_.erase(found);
}

void World::DrawFaults() {
  FolderFaults& faults = disk_.faults();
  faults = {};
  if (Below(2) == 0) return;
  faults.read_error = Below(3) == 0 ? 0.3 : 0;
  faults.write_error = Below(3) == 0 ? 0.3 : 0;
  faults.short_transfer = Below(2) == 0 ? 0.5 : 0;
  faults.unreachable_memory = Below(4) == 0 ? 0.3 : 0;
  faults.small_error = Below(4) == 0 ? 0.5 : 0;
  faults.is_full = Below(6) == 0;
  faults.is_read_only = Below(6) == 0;
  if (Below(4) == 0) faults.max_bytes = 20000;
}

void World::Act() {
  const int act = Below(100);
  if (act < 30) {
    Write();
  } else if (act < 60) {
    Read();
  } else if (act < 85) {
    Take(/*wait=*/act < 70);
  } else if (act < 88) {
    disk_.Flush();
  } else if (act < 92 && weather_.has_faults) {
    DrawFaults();
  } else if (act < 95 && weather_.has_flips) {
    disk_.FlipBit();
  } else if (act < 98 && weather_.has_deaths) {
    Die();
  }
  ExpectInvariants();
}

void World::End() {
  disk_.faults() = {};
  while (store_->num_under_way() > 0) Take(/*wait=*/true);
  Take(/*wait=*/false);
  EXPECT_TRUE(readings_.empty());
  EXPECT_TRUE(writings_.empty());
  const DiskSnapshot snapshot = store_->index().Snapshot();
  for (const DiskPieceSnapshot& piece : snapshot.pieces) {
    EXPECT_EQ(piece.state, DiskState::kThere);
    EXPECT_EQ(piece.num_pins, 0u) << "slot " << piece.slot;
  }
  EXPECT_EQ(snapshot.num_used_slots,
            std::ssize(snapshot.pieces) + std::ssize(snapshot.free));
  std::vector<size_t> num_found;
  for (const TestText& text : written_) num_found.push_back(Find(text).size());
  const int64_t num_slots = store_->index().num_slots();
  store_.reset();
  const DiskSlotLayout layout(piece_bytes_);
  Result<std::unique_ptr<DiskStore>> opened = DiskStore::Open(
      disk_.Open(), {.header = {.made_with = {{"model", "a tiny model"}},
                                .piece_bytes = piece_bytes_},
                     .max_bytes = num_slots * layout.slot_bytes,
                     .has_own_thread = false});
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  store_ = *std::move(opened);
  ExpectInvariants();
  for (size_t i = 0; i < written_.size(); ++i) {
    // Where trailers could not be read, older copies may have come back.
    if (!weather_.has_faults && !weather_.has_flips) {
      EXPECT_GE(Find(written_[i]).size(), num_found[i]);
    }
  }
  for (int i = 0; i < 10; ++i) Read();
  while (store_->num_under_way() > 0) Take(/*wait=*/true);
}

TEST(DiskFault, EveryPieceThatIsReadIsWhatWasWritten) {
  const char* wanted = std::getenv("WINNOW_DISK_SCHEDULES");
  const int num_schedules = wanted == nullptr ? 500 : std::atoi(wanted);
  ASSERT_GT(num_schedules, 0);
  int64_t num_hits = 0;
  for (int seed = 0; seed < num_schedules && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Weather weather = {.has_faults = seed % 2 != 0,
                             .has_flips = seed % 4 >= 2,
                             .has_deaths = seed % 8 >= 4};
    World world(static_cast<uint32_t>(seed), weather);
    for (int i = 0; i < 80 && !HasFailure(); ++i) world.Act();
    world.End();
    num_hits += world.num_hits();
  }
  // A store that finds nothing would pass otherwise.
  EXPECT_GT(num_hits, num_schedules * 10);
}

}  // namespace
}  // namespace winnow
