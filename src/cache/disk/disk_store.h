// DiskStore: the disk tier, whose pages of KV outlive the process.
#ifndef WINNOW_CACHE_DISK_DISK_STORE_H_
#define WINNOW_CACHE_DISK_DISK_STORE_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/block_folder.h"
#include "cache/disk/disk_header.h"
#include "cache/disk/disk_index.h"
#include "cache/disk/disk_queue.h"

namespace winnow {

struct DiskStoreOptions {
  DiskHeader header;
  int64_t max_bytes = 0;  // of the file, which is allocated at once
  // Bounds the transfers in flight; at least one piece's bytes.
  int64_t staging_bytes = 32 << 20;
  bool has_own_thread = true;  // false: for tests with a fixed order
};

// Totals since the store was opened.
struct DiskCounts {
  int64_t num_written = 0, num_read = 0;  // pieces
  int64_t num_failed_writes = 0, num_failed_reads = 0;
  double read_seconds = 0;  // on the store's own thread, for num_read
  std::string first_failure, last_failure;  // error messages
};

// The number of pieces, each with its trailer, that fit in `max_bytes`. Fails
// if that is none, or more than ids can name. `what`, the disk's size, begins
// the message.
Result<int64_t> NumDiskSlots(std::string_view what, int64_t piece_bytes,
                             int64_t max_bytes);

// A write or read in flight.
struct DiskTicket {
  size_t page = 0;
  uint64_t ticket = 0;
};

// Owns the index, the transfers and, through them, the folder. Used by the
// engine's thread alone. No call waits for the disk, except Open, Wait and the
// destructor. A piece that cannot be written, read or trusted is a miss, and an
// error of its transfer alone. Read returns the bytes that Write got, or fails,
// whatever the disk did in between.
class DiskStore {
 public:
  // Reads the folder's content. Fails if it belongs to another model or has no
  // room.
  static Result<std::unique_ptr<DiskStore>> Open(
      std::unique_ptr<BlockFolder> folder, const DiskStoreOptions& options);
  DiskStore(const DiskStore&) = delete;
  DiskStore& operator=(const DiskStore&) = delete;

  // The longest known beginning of the path, at most `max_pages`. Each page has
  // the first of `kinds` that is known at its place.
  std::vector<DiskPlace> Find(const PrefixPath& path, size_t max_pages,
                              std::span<const PageKind> kinds) const {
    return index_.Find(path, max_pages, kinds);
  }

  // Starts to read pieces into memory, piece_bytes each. found[i] is page i of
  // the result. A piece that has gone since ends with kNotFound. REQUIRES:
  // targets live until Poll or Wait returns their transfers.
  std::vector<DiskTicket> Read(std::span<const DiskPlace> found,
                               std::span<const std::span<std::byte>> targets);

  // Starts to write the missing pages of `path` from `first_page` on. Page
  // first_page + i comes from sources[i] and is of kinds[first_page + i]. Known
  // pages count as used. Writes fewer, or none, if no slot is free, a page
  // before them is missing, or the root is too long for a trailer. REQUIRES: a
  // kind for every page; sources live as targets of Read.
  std::vector<DiskTicket> Write(
      const PrefixPath& path, std::span<const PageKind> kinds,
      size_t first_page, std::span<const std::span<const std::byte>> sources);

  // The transfers that have ended since the last call. Wait waits for at least
  // one, if any is left.
  std::vector<PieceDone> Poll() { return Take(/*wait=*/false); }
  std::vector<PieceDone> Wait() { return Take(/*wait=*/true); }
  // As PieceQueue::SetListener.
  void SetListener(std::function<void()> on_done) {
    queue_->SetListener(std::move(on_done));
  }

  int64_t num_under_way() const { return std::ssize(open_); }
  int64_t num_writes_under_way() const { return num_writes_; }
  // True if Poll will return something regardless of the disk.
  bool has_refused() const { return !refused_.empty(); }
  int64_t piece_bytes() const { return layout_.piece_bytes; }
  const DiskIndex& index() const { return index_; }
  const DiskCounts& counts() const { return counts_; }

 private:
  struct OpenTransfer {
    DiskSlot slot;
    bool is_write = false;
  };

  DiskStore(const DiskSlotLayout& layout, int64_t num_slots)
      : layout_(layout), index_(num_slots, DrawNumber()) {}
  std::vector<PieceDone> Take(bool wait);
  void Land(const PieceDone& done);

  const DiskSlotLayout layout_;
  DiskIndex index_;
  DiskCounts counts_;
  uint64_t next_ticket_ = 1;
  std::unordered_map<uint64_t, OpenTransfer> open_;  // by ticket
  int64_t num_writes_ = 0;                           // writes among them
  std::vector<PieceDone> refused_;                   // ended before they began
  std::unique_ptr<PieceQueue> queue_;
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DISK_DISK_STORE_H_
