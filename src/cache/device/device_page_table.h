// DevicePageTable: the page tables of a step's requests, in device memory.
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
  int64_t num_entries = 0;    // of all rows in one step
  int64_t num_kv_blocks = 0;  // in the pool
};

// Owns the table on the device, with one row for each request of the step, as
// long as the request has pages. Entries behind a row's end may be stale, and
// no op may read them. Rows stand one after another. Each has a quarter more
// room than it needs, or its share of what is left. Hence a growing row seldom
// moves the rows behind it, and nothing depends on a request's greatest length.
//
// A copy on the host lets a step send only entries that differ from the last
// step: for most requests none, or one every 32 tokens. All writes go to one
// queue, in whose order the table changes. Used by the engine's thread alone.
class DevicePageTable {
 public:
  // REQUIRES: all options are positive.
  static Result<DevicePageTable> Create(Backend& backend,
                                        const DevicePageTableOptions& options);
  // Bytes of such a table on the device.
  static size_t NumBytes(const DevicePageTableOptions& options);

  // By request and page: a KV block, or kNotWhole. Constant for the table's
  // life.
  const RowTable& rows() const { return rows_; }

  // Makes row i equal pages[i] for steps that are enqueued later. Returns the
  // number of entries sent. REQUIRES: rows and entries fit; KV blocks are below
  // num_kv_blocks, or kNotWhole. Work enqueued up to the call before the last
  // has finished, because its staging memory is reused.
  int64_t Write(Queue& queue,
                std::span<const std::span<const KvBlockId>> pages);

  size_t num_bytes() const { return device_.num_bytes(); }

 private:
  // Where a row stands, and how many of its entries the device has.
  struct Row {
    int64_t first = 0;
    int64_t room = 0;
    int64_t num_known = 0;
  };

  DevicePageTable(Backend& backend, const DevicePageTableOptions& options,
                  Buffer device, Buffer mirror);
  // Gives new, empty places to the rows from `row` on; to all rows if room
  // would not suffice otherwise.
  void PlaceRows(size_t row, std::span<const std::span<const KvBlockId>> pages);
  void SendFirst(Queue& queue);
  int64_t WriteRow(Queue& queue, size_t row, std::span<const KvBlockId> pages);
  // Parts of a buffer that is laid out as the table: the rows' first entries,
  // then the entries.
  View EntriesOf(const Buffer& buffer, int64_t first, int64_t count) const;
  View FirstOf(const Buffer& buffer) const;

  Backend* backend_;
  DevicePageTableOptions options_;
  Buffer device_;
  // The table's content once the queue has caught up. Plain memory, which costs
  // nothing until it is touched.
  Buffer mirror_;
  std::array<Buffer, 2> staging_;
  size_t turn_ = 0;  // the staging buffer of the next Write
  RowTable rows_;
  std::vector<Row> places_;  // [max_requests]
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DEVICE_DEVICE_PAGE_TABLE_H_
