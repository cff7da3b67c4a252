// What always holds of a SlotLedger, as checks on plain data.
#ifndef WINNOW_KV_SLOT_INVARIANTS_H_
#define WINNOW_KV_SLOT_INVARIANTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "kv/invariants.h"

namespace winnow {

// Pages whose slot entries stand together, as the device's tables have it
// (backend/contract/slot_table.h).
inline constexpr int kSlotSegmentPages = 64;
// In place of a segment: all of its pages are whole.
inline constexpr uint32_t kNoSlotSegment = 0xffffffffu;

struct SplitSnapshot {
  KvBlockId kv_block;
  int num_used = 0;  // of its layer blocks, as the ledger counts

  friend bool operator==(const SplitSnapshot&, const SplitSnapshot&) = default;
};

struct SlotOwnerSnapshot {
  SequenceId sequence;
  std::vector<uint32_t> segments;             // by number
  std::vector<std::vector<uint32_t>> frames;  // by layer: layer blocks
  std::vector<std::vector<uint32_t>> chunks;  // by layer
  std::vector<uint32_t> held = {};            // layer blocks that are no frames

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

// Names whatever is broken, a line each; empty where all holds:
//  * every layer block of a split KV block is free, a frame of one sequence and
//  layer,
//    or held by one sequence, and no other layer block is any of these; a KV
//    block's used layer blocks are counted;
//  * a segment or chunk has one owner at most, and exists; free + owned = all;
//  * a layer has the chunks that its frames need, and no more.
std::vector<std::string> BrokenInvariants(const SlotSnapshot& snapshot);

// The same of what lies between slots and pages, where KV blocks are lent to
// nobody else, between two steps:
//  * KV blocks that are lent are split, and all layer blocks of one are one
//  sequence's;
//  * who has slots has pages on the host alone, at least as many as KV blocks
//  of
//    slots, and whose pages are all whole has none;
//  * a page that is not whole has its segment of entries.
std::vector<std::string> BrokenInvariants(const SlotSnapshot& snapshot,
                                          const KvSnapshot& kv);

}  // namespace winnow

#endif  // WINNOW_KV_SLOT_INVARIANTS_H_
