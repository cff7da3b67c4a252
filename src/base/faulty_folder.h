// FaultyDisk: a disk in memory that fails on command, for tests of stores on
// disks.
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

// Faults from now on. Chances are from 0 to 1, for each transfer or call.
struct FolderFaults {
  double read_error = 0;          // EIO
  double write_error = 0;         // EIO; some bytes may have landed
  double short_transfer = 0;      // any number of bytes, even none
  double unreachable_memory = 0;  // EFAULT for a read
  double small_error = 0;         // for a small file, which may then be empty
  bool is_full = false;           // ENOSPC for every write
  bool is_read_only = false;      // EROFS for every write and small file
  int64_t max_bytes = int64_t{1} << 40;  // the limit of Resize
};

// Owns the bytes, which outlive the folders opened on it. A folder is one
// process's view. All randomness comes from the seed.
class FaultyDisk {
 public:
  explicit FaultyDisk(uint32_t seed) : random_(seed) {}
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;

  // REQUIRES: the disk outlives the folder; the folder before is destroyed or
  // killed.
  std::unique_ptr<BlockFolder> Open();

  FolderFaults& faults() { return faults_; }
  int64_t num_bytes() const { return std::ssize(bytes_); }

  // Kills the process: of each write in flight, some bytes, all or none have
  // landed. Further calls of its folder fail.
  void KillProcess();
  // Kills the machine: also each write since the last Flush lands in part,
  // whole or not at all, independently and in any order. REQUIRES: no folder is
  // alive.
  void LosePower();
  // Makes all writes so far permanent, as if the disk had emptied its cache.
  void Flush();
  // Flips one bit, anywhere in the file of blocks.
  void FlipBit();

 private:
  friend class FaultyFolder;
  struct Write {
    int64_t offset;
    std::vector<std::byte> bytes;
  };

  bool Happens(double chance);
  int64_t Below(int64_t bound);
  // Some bytes of a write, all or none, reach `image`.
  void LandTorn(const Write& write, std::vector<std::byte>& image);
  void Land(int64_t offset, std::span<const std::byte> bytes);

  std::mt19937 random_;
  FolderFaults faults_;
  std::vector<std::byte> bytes_;    // the processes' view
  std::vector<std::byte> flushed_;  // at the last Flush
  std::vector<Write> log_;          // writes since the last Flush
  std::map<std::string, std::string, std::less<>> small_files_;
  std::vector<BlockTransfer> under_way_;
  uint64_t generation_ = 0;  // a folder of an earlier generation is dead
  std::vector<uint64_t>
      dead_tags_;  // tags of its transfers that were not collected
};

}  // namespace winnow

#endif  // WINNOW_BASE_FAULTY_FOLDER_H_
