// Where tokens lie of pages that are not whole, as plain data that kernels
// read: filled in by cache/, changed by Fetch, understood by nobody else.
#ifndef WINNOW_BACKEND_CONTRACT_SLOT_TABLE_H_
#define WINNOW_BACKEND_CONTRACT_SLOT_TABLE_H_

#include <cstdint>

#include "backend/contract/layer_cache.h"
#include "backend/contract/row_table.h"
#include "tensor/view.h"

namespace winnow {

// A piece is as many consecutive tokens of a page as a slot holds; piece number
// page * pieces_a_page + i names one of a request.
inline constexpr uint32_t kNoPiece = 0xffffffffu;
// Pages whose entries stand together, allocated together.
inline constexpr int kSegmentPages = 64;
// Frames whose state stands together, allocated together.
inline constexpr int kChunkFrames = 64;
// Slots of one (request, layer, KV head), so that an entry can name either a
// slot or a place in the list of what is missing.
inline constexpr int kMaxSlots = 1 << 14;
inline constexpr uint32_t kNoSegment = 0xffffffffu;
// In SlotTable::host_pages, with a KV block of the device's pool: there the
// page lies yet, as it did when it was whole, and LayerCache says where that
// is.
inline constexpr uint32_t kReclaimable = 0x80000000u;

// Pieces of a page, and slots of a frame.
inline int PiecesAPage(const HeadBlockFormat& format) {
  return format.page_tokens / format.slot_tokens;
}

// The slots of one layer, of every request in a step, and where the host has
// the pages. A frame is a layer block of the device's pool, of whatever layer
// of an KV block that was split, that holds slots: KV head h has those of slice
// h, each laid out like that piece of a page's slice. Slots of a (request, KV
// head) are numbered through its frames.
//
// A piece is in slot s exactly where entry[piece] = s < num_slots and
// tag[s] = piece. So entries may say anything for what is not there: nothing
// clears them when a slot is given away, when a request loses its last frames,
// or when a segment comes to another request (P. Briggs and L. Torczon, An
// efficient representation for sparse sets, 1993). Only the tags and ages of
// frames that are added must be set, to kNoPiece and kEmptyAge.
struct SlotTable {
  View num_segments;  // i32 [requests]: 0: all of the request's pages are whole
  RowTable directory;  // by request: segment, or kNoSegment where all its pages
                       // are whole
  View entries;        // u16 [segments, kv_heads, 64 * pieces a page]
  View num_frames;     // i32 [requests]
  RowTable chunks;     // by request
  View frames;         // u32 [chunks, 64]: number of a layer block
  View tags;           // u32 [chunks, kv_heads, 64 * pieces a page]
  View ages;           // u8  [chunks, kv_heads, 64 * pieces a page]
  int max_frames = 0;  // that a request may have, one at least
  // Layer block i is at layer blocks + i * layer_block_bytes.
  std::byte* layer_blocks = nullptr;
  int64_t layer_block_bytes = 0;
  // The host's pool, in pieces of memory of so many KV blocks each; a KV block
  // holds its layers' layer blocks one after another. There is each page that
  // is not whole: in which KV block, by request and page, from the first such
  // one on; but with kReclaimable it is read on the device.
  RowTable host_pages;
  View host_memory;  // i64 [pieces of memory]: addresses
  int64_t host_kv_blocks_a_piece = 1;
  int64_t host_kv_block_bytes = 0;
  int64_t host_layer_offset_bytes = 0;
};

// What Fetch counts, of a request in a layer, over its KV heads: pieces.
enum FetchCount : int {
  kPicksCount,        // picked; where several lists of a KV head pick one, each
  kHitsCount,         // of these: whole page or slot, or fetched by this Fetch
  kMissesCount,       // picks - hits
  kUnplacedCount,     // of the misses: no slot was left, they are read far away
  kHintsCount,        // brought for hints
  kHintsUsedCount,    // of these: picked later
  kFetchedCount,      // brought, in all
  kReclaimableCount,  // of the misses and of what hints brought: of pages that
                      // stay reclaimable, so that nothing crossed the link
  // Hits in slots by the slot's age, and slots by age, empty ones last: what a
  // smaller budget would have missed (docs/design.md section 3).
  kHitsByAgeCount,
  kSlotsByAgeCount = kHitsByAgeCount + 64,
  kNumFetchCounts = kSlotsByAgeCount + 65,
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONTRACT_SLOT_TABLE_H_
