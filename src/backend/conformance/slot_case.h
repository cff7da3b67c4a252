// SlotCase: paged KV of which part is whole, part in slots and all of that on
// the host, for tests of Fetch and of Attend over slots.
#ifndef WINNOW_BACKEND_CONFORMANCE_SLOT_CASE_H_
#define WINNOW_BACKEND_CONFORMANCE_SLOT_CASE_H_

#include <vector>

#include "backend/conformance/paged_case.h"
#include "backend/contract/slot_table.h"

namespace winnow {

// The state of pages, slots and tables between the steps of a test, on the
// host. Poison is what nobody has written: the device's bytes of pages that are
// not whole and do not stay reclaimable, slots that hold nothing, the host's
// bytes of pages that are open; and those of pages that stay reclaimable, as
// nobody is to read them. Entries start as random numbers.
class SlotCase {
 public:
  // Pages before num_closed_pages[r] of request r may be other than whole.
  // REQUIRES: `paged` outlives the case.
  SlotCase(const PagedCase& paged, int slot_tokens,
           std::vector<int64_t> num_closed_pages, RandomSource& random);

  const PagedCase& paged() const { return paged_; }
  int pieces_a_page() const { return kPageTokens / slot_tokens_; }
  bool IsWhole(size_t request, int64_t page) const {
    return is_whole_[request][static_cast<size_t>(page)];
  }
  // It is not whole, and lies yet where it was.
  bool Lingers(size_t request, int64_t page) const {
    return reclaimable_[request][static_cast<size_t>(page)];
  }
  // Whether all of the request's pages are.
  bool IsWhole(size_t request) const;
  int NumSlots(size_t request) const {
    return static_cast<int>(frames_[request].size()) * pieces_a_page();
  }

  // Draws anew which closed pages are whole, each with the given chance, which
  // of the others stay reclaimable, and how many frames the requests have.
  void Draw(double whole_chance, int max_frames, RandomSource& random);
  // Has it have so many frames.
  void Grow(size_t request, size_t num_frames, RandomSource& random);

  // What the ops take. Whole pages of later requests may be those of the
  // first in the page table: for Fetch, that has nothing to do with them.
  struct OnDevice {
    View pool, host;
    LayerCache cache;
    SlotTable slots;
  };
  OnDevice Upload(TestDevice& device, bool shares_whole_pages) const;
  // Takes over what Fetch may have changed.
  void Download(TestDevice& device, const OnDevice& from);

  uint32_t Tag(size_t request, int head, int slot) const;
  uint8_t Age(size_t request, int head, int slot) const;
  uint16_t Entry(size_t request, int head, uint32_t piece) const;
  // Keys, then values.
  std::vector<std::byte> BytesOfSlot(size_t request, int head, int slot) const;
  std::vector<std::byte> BytesOfPiece(size_t request, int head,
                                      uint32_t piece) const;
  // The device's pool without the slots of any request.
  std::vector<std::byte> PoolWithoutSlots() const;

 private:
  // All closed pages of it.
  void CopyToHost(size_t request);
  size_t StateIndex(size_t request, int head, int slot) const;
  size_t FrameOffset(size_t request, int head, int slot) const;
  size_t HostOffset(size_t request, int64_t page, int head) const;
  std::vector<std::byte> BytesAt(const std::vector<std::byte>& from,
                                 size_t slice, int index) const;
  std::vector<TableRow> FarRows() const;
  std::vector<std::byte> HostImage() const;

  const PagedCase& paged_;
  const int slot_tokens_;
  HeadBlockFormat format_;
  std::vector<int64_t> num_closed_pages_;
  size_t kv_block_bytes_ = 0;     // of the device's pool
  std::vector<std::byte> whole_;  // the device's pool, were all pages whole
  std::vector<std::byte> pool_;   // as it is; frames lie behind the pages
  std::vector<uint32_t> free_frames_;
  std::vector<uint32_t> free_chunks_;
  std::vector<std::vector<bool>> is_whole_;        // by request and page
  std::vector<std::vector<bool>> reclaimable_;     // likewise
  std::vector<std::vector<uint32_t>> frames_;      // by request
  std::vector<std::vector<uint32_t>> chunks_;      // by request
  std::vector<std::vector<uint32_t>> segments_;    // by request
  std::vector<std::vector<uint32_t>> host_pages_;  // by request and page
  TestArray frame_table_, tags_, ages_, entries_;
  // The host's pool: KV blocks a piece of memory, and how they are laid out.
  int64_t host_kv_blocks_a_piece_ = 1, host_kv_block_bytes_ = 0;
  int64_t host_layer_offset_bytes_ = 0;
  std::vector<std::byte> host_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONFORMANCE_SLOT_CASE_H_
