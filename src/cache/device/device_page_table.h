// The page tables of a step's requests, where the device can read them.
#ifndef WINNOW_CACHE_DEVICE_DEVICE_PAGE_TABLE_H_
#define WINNOW_CACHE_DEVICE_DEVICE_PAGE_TABLE_H_

#include <array>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/ids.h"

namespace winnow {

struct DevicePageTableOptions {
  int max_requests = 0;       // in one step
  int64_t num_entries = 0;    // of all rows of a step
  int64_t num_kv_blocks = 0;  // that there are
};

// Owns the table on the device, one row a request of the step, as long as that
// has pages; what a row held before it was written again may stay behind them,
// and nobody may read it. Rows stand one after the other, each with room for a
// quarter more, or their parts of what there is: so a row that grows seldom
// moves those behind it, and nothing here depends on how long one may become.
// Keeps a copy on the host, so that a step sends only what differs from the
// last one: for most, nothing, or one entry every 32 tokens. All its writes go
// to one queue, in whose order the table changes. Used by the engine's thread
// alone.
class DevicePageTable {
 public:
  // REQUIRES: all are positive.
  static Result<DevicePageTable> Create(Backend& backend,
                                        const DevicePageTableOptions& options);
  // What one takes on the device.
  static size_t NumBytes(const DevicePageTableOptions& options);

  // By request and page: KV block, or kNotWhole. The same for the table's life.
  const RowTable& rows() const { return rows_; }

  // Makes row i say pages[i], for steps that are enqueued later. Returns how
  // many entries it sent. REQUIRES: rows and entries for which there is
  // room; KV blocks below num_kv_blocks, or kNotWhole; what was enqueued up to
  // the call before the last has passed, for its staging memory is used again.
  int64_t Write(Queue& queue,
                std::span<const std::span<const KvBlockId>> pages);

  size_t num_bytes() const { return device_.num_bytes(); }

 private:
  // Where a row stands, and what is known of it.
  struct Row {
    int64_t first = 0;
    int64_t room = 0;
    int64_t num_known = 0;
  };

  DevicePageTable(Backend& backend, const DevicePageTableOptions& options,
                  Buffer device, Buffer mirror);
  // Gives rows from `row` on other places, which hold nothing yet: all of them
  // where room would be lacking otherwise.
  void PlaceRows(size_t row, std::span<const std::span<const KvBlockId>> pages);
  void SendFirst(Queue& queue);
  int64_t WriteRow(Queue& queue, size_t row, std::span<const KvBlockId> pages);
  // Of a buffer that is laid out as the table is: the rows' first entries, then
  // the entries.
  View EntriesOf(const Buffer& buffer, int64_t first, int64_t count) const;
  View FirstOf(const Buffer& buffer) const;

  Backend* backend_;
  DevicePageTableOptions options_;
  Buffer device_;
  // Plain memory that costs nothing until it is touched: what the device's
  // table will say when the queue gets there.
  Buffer mirror_;
  std::array<Buffer, 2> staging_;
  size_t turn_ = 0;  // which staging buffer the next Write uses
  RowTable rows_;
  std::vector<Row> places_;  // [max_requests]
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DEVICE_DEVICE_PAGE_TABLE_H_
