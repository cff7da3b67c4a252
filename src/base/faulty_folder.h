// A disk in memory that fails on command, for tests of what lives on disks.
#ifndef WINNOW_BASE_FAULTY_FOLDER_H_
#define WINNOW_BASE_FAULTY_FOLDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/block_folder.h"

namespace winnow {

// What goes wrong from now on; chances from 0 to 1 a transfer or call.
struct FolderFaults {
  double read_error = 0;          // EIO
  double write_error = 0;         // EIO; some of its bytes may have landed
  double short_transfer = 0;      // any number of bytes, also none
  double unreachable_memory = 0;  // EFAULT for a read
  double small_error = 0;         // of a small file; it may be empty then
  bool is_full = false;           // ENOSPC for every write
  bool is_read_only = false;      // EROFS for every write and small file
  int64_t max_bytes = int64_t{1} << 40;  // that Resize finds room for
};

// Owns the bytes, which outlive the folders that open it: a folder is what one
// process sees. All that is random comes from the seed.
class FaultyDisk {
 public:
  explicit FaultyDisk(uint32_t seed) : random_(seed) {}
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;

  // REQUIRES: the disk outlives the folder; the one before is gone or killed.
  std::unique_ptr<BlockFolder> Open();

  FolderFaults& faults() { return faults_; }
  int64_t num_bytes() const { return std::ssize(bytes_); }

  // The process dies: of each write under way some bytes have landed, or all,
  // or none. Its folder ends whatever else it is asked for with an error.
  void KillProcess();
  // The machine dies too: the same for every write since the last Flush, each
  // for itself, in any order. REQUIRES: no folder is alive.
  void LosePower();
  // What is written stays from here on, as if the disk had emptied its cache.
  void Flush();
  // Turns one bit over, anywhere in the file of blocks.
  void FlipBit();

 private:
  friend class FaultyFolder;
  struct Write {
    int64_t offset;
    std::vector<std::byte> bytes;
  };

  bool Happens(double chance);
  int64_t Below(int64_t bound);
  // Some of the bytes, or all, or none, of a write reach `image`.
  void LandTorn(const Write& write, std::vector<std::byte>& image);
  void Land(int64_t offset, std::span<const std::byte> bytes);

  std::mt19937 random_;
  FolderFaults faults_;
  std::vector<std::byte> bytes_;    // as processes see it
  std::vector<std::byte> flushed_;  // as it was at the last Flush
  std::vector<Write> log_;          // since
  std::map<std::string, std::string, std::less<>> small_files_;
  std::vector<BlockTransfer> under_way_;
  uint64_t generation_ = 0;          // a folder of an earlier one is dead
  std::vector<uint64_t> dead_tags_;  // of its transfers, not collected yet
};

}  // namespace winnow

#endif  // WINNOW_BASE_FAULTY_FOLDER_H_
