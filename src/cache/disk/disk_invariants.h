// Invariants of a DiskIndex, as checks on plain data.
#ifndef WINNOW_CACHE_DISK_DISK_INVARIANTS_H_
#define WINNOW_CACHE_DISK_DISK_INVARIANTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace winnow {

enum class DiskState : uint8_t {
  kFree,
  kWriting,  // placed; its bytes are in flight
  kThere,
  kLost,  // no piece any more, but its bytes are in flight
};

struct DiskRootSnapshot {
  uint32_t id = 0;
  uint32_t num_children = 0;
};

struct DiskPieceSnapshot {
  uint32_t slot = 0;
  DiskState state = DiskState::kFree;
  uint64_t number = 0;
  std::optional<uint32_t> parent = {};  // a slot
  std::optional<uint32_t> root = {};    // set if there is no parent
  std::vector<uint32_t> children = {};
  uint32_t num_pins = 0;
  uint64_t last_use = 0;
  bool is_found = false;  // by its parent, kind and tokens
};

// The state of a DiskIndex at one moment.
struct DiskSnapshot {
  int64_t num_slots = 0;
  int64_t num_used_slots = 0;  // ever used
  int64_t num_pieces = 0;      // as the index counts
  std::vector<DiskRootSnapshot> roots = {};
  std::vector<DiskPieceSnapshot> pieces = {};  // all but free ones, by slot
  std::vector<uint32_t> free = {};
  std::vector<uint32_t> evictable = {};  // least recently used first
};

// Returns one line for each broken invariant; empty if all hold:
// - A slot that was ever used is free or holds one piece. No more slots are
//   used than exist.
// - The count of pieces that are not lost is right, and each of them is found.
// - A piece's parent exists, was written before it, and alone names it as a
//   child. A root has the number of children that name it, at least one.
// - A piece that is being written or is lost is pinned.
// - `evictable` are the written pieces without pins and children, in order of
//   last use.
std::vector<std::string> BrokenInvariants(const DiskSnapshot& snapshot);

}  // namespace winnow

#endif  // WINNOW_CACHE_DISK_DISK_INVARIANTS_H_
