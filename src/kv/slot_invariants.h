// Invariants of a SlotLedger, as checks on plain data.
#ifndef WINNOW_KV_SLOT_INVARIANTS_H_
#define WINNOW_KV_SLOT_INVARIANTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "kv/invariants.h"

namespace winnow {

// Pages whose slot entries stand together in the device's tables
// (backend/contract/slot_table.h).
inline constexpr int kSlotSegmentPages = 64;
// In place of a segment: all its pages are resident.
inline constexpr uint32_t kNoSlotSegment = 0xffffffffu;

struct SplitSnapshot {
  KvBlockId kv_block;
  int num_used = 0;  // of its layer blocks, as the ledger counts

  friend bool operator==(const SplitSnapshot&, const SplitSnapshot&) = default;
};

struct SlotOwnerSnapshot {
  SequenceId sequence;
  std::vector<uint32_t> segments;             // by number
  std::vector<std::vector<uint32_t>> frames;  // layer blocks, by layer
  std::vector<std::vector<uint32_t>> chunks;  // by layer
  std::vector<uint32_t> held = {};  // layer blocks that are not slot blocks

  friend bool operator==(const SlotOwnerSnapshot&,
                         const SlotOwnerSnapshot&) = default;
};

// The state of a SlotLedger at one moment. Equal snapshots behave alike.
struct SlotSnapshot {
  int num_layers = 0;
  int chunk_frames = 0;
  int64_t num_segments = 0, num_chunks = 0;
  int64_t num_free_segments = 0, num_free_chunks = 0;  // as the pools count
  std::vector<SplitSnapshot> split;                    // ascending
  std::vector<uint32_t> free_layer_blocks;             // ascending
  std::vector<SlotOwnerSnapshot> owners;               // ascending

  friend bool operator==(const SlotSnapshot&, const SlotSnapshot&) = default;
};

// Returns one line for each broken invariant; empty if all hold:
// - Every layer block of a split KV block is free, a slot block of one sequence
//   and layer, or held by one sequence. No other layer block is any of these.
// - The count of a KV block's used layer blocks is right.
// - A segment or chunk exists and has at most one owner; free + owned = all.
// - A layer has exactly the chunks that its slot blocks need.
std::vector<std::string> BrokenInvariants(const SlotSnapshot& snapshot);

// The invariants between cache slots and pages. They hold between two steps if
// KV blocks are lent for cache slots alone:
// - Every lent KV block is split, and one sequence has all its layer blocks.
// - A sequence with cache slots has offloaded pages, at least as many as KV
//   blocks of slots. A sequence without offloaded pages has no cache slots.
// - Every offloaded page has a segment of entries.
std::vector<std::string> BrokenInvariants(const SlotSnapshot& snapshot,
                                          const KvSnapshot& kv);

}  // namespace winnow

#endif  // WINNOW_KV_SLOT_INVARIANTS_H_
