// SlotHead: the slots of one request and KV head in one layer.
#ifndef WINNOW_BACKEND_CPU_SLOT_HEAD_H_
#define WINNOW_BACKEND_CPU_SLOT_HEAD_H_

#include <bit>

#include "backend/slot_table.h"
#include "base/check.h"

namespace winnow {

// Where the tokens of a piece lie: piece `index` of a slice, on the device or
// on the host.
struct PiecePlace {
  std::byte* slice = nullptr;
  int index = 0;
};

// Borrows the tables. Finds places, and lets Bring change them.
class SlotHead {
 public:
  SlotHead(const LayerCache& cache, const SlotTable& slots, int request,
           int kv_head)
      : cache_(cache),
        slots_(slots),
        request_(request),
        kv_head_(kv_head),
        pieces_a_page_(PiecesAPage(cache.format)),
        // They divide a page, whose tokens are a power of two.
        page_shift_(std::countr_zero(static_cast<unsigned>(pieces_a_page_))),
        num_segments_(slots.num_segments.As<int32_t>()[request]),
        num_slots_(slots.num_frames.As<int32_t>()[request] * pieces_a_page_) {
    CHECK(num_slots_ <= kMaxSlots, "request={} slots={} limit={}", request,
          num_slots_, kMaxSlots);
  }

  int pieces_a_page() const { return pieces_a_page_; }
  int num_slots() const { return num_slots_; }
  // All pages of the request are whole.
  bool is_whole() const { return num_segments_ == 0; }
  // Whose tags and ages stand together.
  int chunk_slots() const { return kChunkFrames << page_shift_; }

  // REQUIRES: the page is not whole.
  uint16_t& Entry(int64_t page, int index) const {
    const int64_t segment = page / kSegmentPages;
    CHECK(segment < num_segments_, "request={} page={} segments={}", request_,
          page, num_segments_);
    const uint32_t id = slots_.directory.Row<uint32_t>(request_)[segment];
    CHECK(id != kNoSegment, "request={} page={} has no segment", request_,
          page);
    return (slots_.entries.Row<uint16_t>(id) +
            kv_head_ *
                slots_.entries
                    .stride[1])[page % kSegmentPages * pieces_a_page_ + index];
  }
  uint32_t& Tag(int slot) const { return OfChunk<uint32_t>(slots_.tags, slot); }
  uint8_t& Age(int slot) const { return OfChunk<uint8_t>(slots_.ages, slot); }

  // What SlotOf and Age will read for such an entry comes into the cache.
  void FetchAhead(uint16_t entry) const {
    if (entry >= num_slots_) return;
    __builtin_prefetch(&Tag(entry));
    __builtin_prefetch(&Age(entry), /*rw=*/1);
  }

  uint32_t PieceNumber(int64_t page, int index) const {
    return static_cast<uint32_t>(page * pieces_a_page_ + index);
  }
  // The slot that an entry names, -1 where the piece is in none.
  int SlotOf(uint16_t entry, uint32_t piece) const {
    return entry < num_slots_ && Tag(entry) == piece ? entry : -1;
  }

  PiecePlace InSlot(int slot) const {
    const int frame = slot >> page_shift_;
    const uint32_t chunk = ChunkOf(slot);
    const int64_t strip =
        slots_.frames.Row<uint32_t>(chunk)[frame % kChunkFrames];
    return {slots_.strips + strip * slots_.strip_bytes +
                int64_t{kv_head_} * cache_.format.slice_bytes,
            slot & (pieces_a_page_ - 1)};
  }
  PiecePlace OnHost(int64_t page, int index) const {
    const int64_t extent = slots_.host_pages.Row<uint32_t>(request_)[page];
    const int64_t memory =
        slots_.host_memory.As<int64_t>()[extent / slots_.host_extents_a_piece];
    return {
        reinterpret_cast<std::byte*>(memory) +
            extent % slots_.host_extents_a_piece * slots_.host_extent_bytes +
            slots_.host_layer_offset_bytes +
            int64_t{kv_head_} * cache_.format.slice_bytes,
        index};
  }
  // REQUIRES: the page is not whole.
  PiecePlace Find(int64_t page, int index) const {
    const int slot = SlotOf(Entry(page, index), PieceNumber(page, index));
    return slot >= 0 ? InSlot(slot) : OnHost(page, index);
  }

 private:
  static constexpr int kChunkShift = std::countr_zero(unsigned{kChunkFrames});

  uint32_t ChunkOf(int slot) const {
    return slots_.chunks.Row<uint32_t>(
        request_)[slot >> page_shift_ >> kChunkShift];
  }
  template <typename T>
  T& OfChunk(const View& view, int slot) const {
    return (view.Row<T>(ChunkOf(slot)) +
            kv_head_ * view.stride[1])[slot & (chunk_slots() - 1)];
  }

  const LayerCache& cache_;
  const SlotTable& slots_;
  const int request_;
  const int kv_head_;
  const int pieces_a_page_;
  const int page_shift_;  // of which the pieces of a page are a power of two
  const int num_segments_;
  const int num_slots_;
};

// Whole page, slot, or host: the three steps. REQUIRES: the page is whole, or
// `slots` says where else it is.
inline PiecePlace FindPiece(const LayerCache& cache, const SlotHead* slots,
                            int request, int kv_head, int64_t page, int index) {
  CHECK(page < cache.page_table.dim(1), "page={} page_table {}", page,
        ToString(cache.page_table));
  const uint32_t extent = cache.page_table.Row<uint32_t>(request)[page];
  if (extent != kNotWhole) return {cache.Slice(extent, kv_head), index};
  CHECK(slots != nullptr, "request={} page={} is not whole", request, page);
  return slots->Find(page, index);
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SLOT_HEAD_H_
