// The page tables of a step's requests, where the device can read them.
#ifndef WINNOW_CACHE_DEVICE_PAGE_TABLE_H_
#define WINNOW_CACHE_DEVICE_PAGE_TABLE_H_

#include <array>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/ids.h"

namespace winnow {

// Owns the table on the device, [max_requests, max_pages], one row a request
// of the step; what a row held before it was written again stays beyond its
// pages, and nobody may read it. Keeps a copy on the host, so that a step
// sends only what differs from the last one: for most, nothing, or one entry
// every 32 tokens. All its writes go to one queue, in whose order the table
// changes. Used by the engine's thread alone.
class DevicePageTable {
 public:
  // REQUIRES: all are positive.
  static Result<DevicePageTable> Create(Backend& backend, int max_requests,
                                        int max_pages, int64_t num_extents);

  // u32 [max_requests, max_pages]: extent, or kNotWhole.
  const View& view() const { return view_; }

  // Makes row i say pages[i], for steps that are enqueued later. Returns how
  // many entries it sent. REQUIRES: rows and entries for which there is
  // room; extents below num_extents, or kNotWhole; what was enqueued up to the
  // call before the last has passed, for its staging memory is used again.
  int64_t Write(Queue& queue, std::span<const std::span<const ExtentId>> pages);

  size_t num_bytes() const { return device_.num_bytes(); }

 private:
  DevicePageTable(Backend& backend, Buffer device, Buffer mirror,
                  int64_t num_extents);
  int64_t WriteRow(Queue& queue, int64_t row, std::span<const ExtentId> pages);
  // A row of a buffer that is laid out as the table is.
  View RowOf(const Buffer& buffer, int64_t row, int64_t first,
             int64_t count) const;

  Backend* backend_;
  Buffer device_;
  // Plain memory that costs nothing until it is touched: what the device's
  // table will say when the queue gets there.
  Buffer mirror_;
  int64_t num_extents_;
  std::array<Buffer, 2> staging_;
  size_t turn_ = 0;  // which staging buffer the next Write uses
  View view_;
  std::vector<int64_t> num_known_;  // [max_requests]: entries of mirror_
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DEVICE_PAGE_TABLE_H_
