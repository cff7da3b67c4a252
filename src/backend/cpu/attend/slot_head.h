// SlotHead: the slots of one request and KV head in one layer.
#ifndef WINNOW_BACKEND_CPU_ATTEND_SLOT_HEAD_H_
#define WINNOW_BACKEND_CPU_ATTEND_SLOT_HEAD_H_

#include <algorithm>
#include <bit>

#include "backend/contract/slot_table.h"
#include "backend/cpu/isa/prefetch_lines.h"
#include "base/check.h"

namespace winnow {

// Where the tokens of a piece lie: piece `index` of a slice, on the device or
// on the host.
struct PiecePlace {
  std::byte* slice = nullptr;
  int index = 0;
};

// Borrows the tables. Finds places, and lets Fetch change them. What all
// lookups share is found once, as pointers to what is this request's and
// head's.
class SlotHead {
 public:
  SlotHead(const LayerCache& cache, const SlotTable& slots, int request,
           int kv_head)
      : cache_(cache),
        slots_(slots),
        request_(request),
        kv_head_(kv_head),
        pieces_a_page_(PiecesAPage(cache.format)),
        num_segments_(slots.num_segments.As<int32_t>()[request]),
        num_slots_(slots.num_frames.As<int32_t>()[request] * pieces_a_page_) {
    CHECK(num_slots_ <= kMaxSlots, "request={} slots={} limit={}", request,
          num_slots_, kMaxSlots);
    if (is_whole()) return;
    directory_ = slots.directory.Row(request);
    entries_ = OfHead<uint16_t>(slots.entries);
    if (num_slots_ == 0) return;
    chunks_ = slots.chunks.Row(request);
    tags_ = OfHead<uint32_t>(slots.tags);
    ages_ = OfHead<uint8_t>(slots.ages);
  }

  int pieces_a_page() const { return pieces_a_page_; }
  // The same, of which a compiler knows how many pieces a page has.
  // REQUIRES: so many.
  template <int kPieces>
  SlotHead OfPieces() const {
    if (pieces_a_page_ != kPieces) __builtin_unreachable();
    return *this;
  }
  int num_slots() const { return num_slots_; }
  // All pages of the request are whole.
  bool is_whole() const { return num_segments_ == 0; }
  // Whose tags and ages stand together.
  int chunk_slots() const { return kChunkFrames << page_shift(); }

  // Of the pieces of a segment's pages. REQUIRES: a page of it is not whole.
  uint16_t* SegmentEntries(int64_t segment) const {
    CHECK(segment < num_segments_, "request={} segment={} segments={}",
          request_, segment, num_segments_);
    const uint32_t id = directory_[segment];
    CHECK(id != kNoSegment, "request={} segment={} is not there", request_,
          segment);
    return entries_ + id * slots_.entries.stride[0];
  }
  // REQUIRES: the page is not whole.
  uint16_t& Entry(int64_t page, int index) const {
    return SegmentEntries(
        page / kSegmentPages)[page % kSegmentPages * pieces_a_page_ + index];
  }
  uint32_t& Tag(int slot) const { return OfSlot(tags_, slots_.tags, slot); }
  uint8_t& Age(int slot) const { return OfSlot(ages_, slots_.ages, slot); }

  uint32_t PieceNumber(int64_t page, int index) const {
    return static_cast<uint32_t>(page * pieces_a_page_ + index);
  }
  // The slot that an entry names, -1 where the piece is in none.
  int SlotOf(uint16_t entry, uint32_t piece) const {
    return entry < num_slots_ && Tag(entry) == piece ? entry : -1;
  }

  PiecePlace InSlot(int slot) const {
    const int frame = slot >> page_shift();
    const uint32_t chunk = ChunkOf(slot);
    const int64_t layer_block =
        slots_.frames.Row<uint32_t>(chunk)[frame % kChunkFrames];
    return {slots_.layer_blocks + layer_block * slots_.layer_block_bytes +
                int64_t{kv_head_} * cache_.format.head_block_bytes,
            slot & (pieces_a_page_ - 1)};
  }
  // REQUIRES: the page is not whole.
  bool Lingers(int64_t page) const {
    return (slots_.host_pages.At(request_, page) & kReclaimable) != 0;
  }
  // On the host, or where it stays reclaimable. REQUIRES: as Lingers.
  PiecePlace OutOfSlots(int64_t page, int index) const {
    const uint32_t number = slots_.host_pages.At(request_, page);
    if ((number & kReclaimable) != 0) {
      return {cache_.Slice(number & ~kReclaimable, kv_head_), index};
    }
    const int64_t kv_block = number;
    const int64_t memory =
        slots_.host_memory
            .As<int64_t>()[kv_block / slots_.host_kv_blocks_a_piece];
    return {reinterpret_cast<std::byte*>(memory) +
                kv_block % slots_.host_kv_blocks_a_piece *
                    slots_.host_kv_block_bytes +
                slots_.host_layer_offset_bytes +
                int64_t{kv_head_} * cache_.format.head_block_bytes,
            index};
  }
  // REQUIRES: the page is not whole.
  PiecePlace Find(int64_t page, int index) const {
    const int slot = SlotOf(Entry(page, index), PieceNumber(page, index));
    return slot >= 0 ? InSlot(slot) : OutOfSlots(page, index);
  }

 private:
  static constexpr int kChunkShift = std::countr_zero(unsigned{kChunkFrames});

  // Pieces divide a page, whose tokens are a power of two.
  int page_shift() const {
    return std::countr_zero(static_cast<unsigned>(pieces_a_page_));
  }

  uint32_t ChunkOf(int slot) const {
    return chunks_[slot >> page_shift() >> kChunkShift];
  }
  template <typename T>
  T* OfHead(const View& view) const {
    return view.As<T>() + kv_head_ * view.stride[1];
  }
  template <typename T>
  T& OfSlot(T* of_head, const View& view, int slot) const {
    return of_head[ChunkOf(slot) * view.stride[0] +
                   (slot & (chunk_slots() - 1))];
  }

  friend class LinesAhead;

  const LayerCache& cache_;
  const SlotTable& slots_;
  const int request_;
  const int kv_head_;
  const int pieces_a_page_;
  const int num_segments_;
  const int num_slots_;
  // Null where there are no slots.
  const uint32_t* directory_ = nullptr;  // [segments]
  uint16_t* entries_ = nullptr;          // [segments of all, 64 * pieces]
  const uint32_t* chunks_ = nullptr;     // [chunks]
  uint32_t* tags_ = nullptr;             // [chunks of all, 64 * pieces]
  uint8_t* ages_ = nullptr;              // likewise
};

// What looking up a head's pieces will read comes into the cache while
// another's are looked up: all of it, a chunk and a few entries at a time, as
// picks touch most lines, and none tells which before it is there.
class LinesAhead {
 public:
  explicit LinesAhead(const SlotHead& head)
      : head_(head),
        num_slots_(head.is_whole() ? 0 : head.num_slots()),
        entries_a_prefetch_(
            std::min(kEntryLines * kLineBytes / int{sizeof(uint16_t)},
                     kSegmentPages * head.pieces_a_page())),
        // None where all pages are whole.
        num_entries_(head.num_segments_ * kSegmentPages *
                     head.pieces_a_page()) {}

  // The next chunk and entries, if any are left.
  void Prefetch() {
    if (slot_ < num_slots_) {
      const int count = std::min(head_.chunk_slots(), num_slots_ - slot_);
      PrefetchToRead<CacheLevel::kFirst>(&head_.Tag(slot_), count);
      PrefetchToRead<CacheLevel::kFirst>(&head_.Age(slot_), count);
      slot_ += head_.chunk_slots();
    }
    if (entry_ == num_entries_) return;
    const int a_segment = kSegmentPages * head_.pieces_a_page();
    if (head_.directory_[entry_ / a_segment] != kNoSegment) {
      PrefetchToRead<CacheLevel::kFirst>(
          head_.SegmentEntries(entry_ / a_segment) + entry_ % a_segment,
          entries_a_prefetch_);
    }
    entry_ += entries_a_prefetch_;
  }

 private:
  static constexpr int kLineBytes = 64;
  static constexpr int kEntryLines = 4;

  const SlotHead head_;
  const int num_slots_, entries_a_prefetch_, num_entries_;
  int slot_ = 0, entry_ = 0;
};

// Whole page, slot, or far: the three steps. REQUIRES: the page is whole, or
// `slots` says where else it is.
inline PiecePlace FindPiece(const LayerCache& cache, const SlotHead* slots,
                            int request, int kv_head, int64_t page, int index) {
  CHECK(page < cache.max_pages, "page={} max_pages={}", page, cache.max_pages);
  const uint32_t kv_block = cache.page_table.Row(request)[page];
  if (kv_block != kNotWhole) return {cache.Slice(kv_block, kv_head), index};
  CHECK(slots != nullptr, "request={} page={} is not whole", request, page);
  return slots->Find(page, index);
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ATTEND_SLOT_HEAD_H_
