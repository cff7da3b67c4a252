#include "cache/device_page_table.h"

#include <algorithm>
#include <string>
#include <utility>

namespace winnow {

Result<DevicePageTable> DevicePageTable::Create(Backend& backend,
                                                int max_requests, int max_pages,
                                                int64_t num_extents) {
  CHECK(max_requests > 0 && max_pages > 0 && num_extents > 0,
        "max_requests={} max_pages={} num_extents={}", max_requests, max_pages,
        num_extents);
  const size_t num_bytes = static_cast<size_t>(max_requests) *
                           static_cast<size_t>(max_pages) * sizeof(uint32_t);
  const std::string purpose = fmt::format(
      "page tables of {} requests of {} pages", max_requests, max_pages);
  ASSIGN_OR_RETURN(Buffer device,
                   backend.Allocate(Tier::kDevice, num_bytes, purpose));
  ASSIGN_OR_RETURN(Buffer mirror, Buffer::AllocateHost(num_bytes, purpose));
  DevicePageTable table(backend, std::move(device), std::move(mirror),
                        num_extents);
  for (Buffer& staging : table.staging_) {
    ASSIGN_OR_RETURN(staging,
                     backend.Allocate(Tier::kHost, num_bytes, purpose));
  }
  table.view_ = table.device_.At(0, Dtype::kUInt32, {max_requests, max_pages});
  table.num_known_.resize(static_cast<size_t>(max_requests));
  return table;
}

DevicePageTable::DevicePageTable(Backend& backend, Buffer device, Buffer mirror,
                                 int64_t num_extents)
    : backend_(&backend),
      device_(std::move(device)),
      mirror_(std::move(mirror)),
      num_extents_(num_extents) {}

int64_t DevicePageTable::Write(
    Queue& queue, std::span<const std::span<const ExtentId>> pages) {
  CHECK(std::ssize(pages) <= view_.dim(0), "requests={} max_requests={}",
        pages.size(), view_.dim(0));
  turn_ = (turn_ + 1) % staging_.size();
  int64_t num_sent = 0;
  for (int64_t row = 0; row < std::ssize(pages); ++row) {
    num_sent += WriteRow(queue, row, pages[static_cast<size_t>(row)]);
  }
  return num_sent;
}

int64_t DevicePageTable::WriteRow(Queue& queue, int64_t row,
                                  std::span<const ExtentId> pages) {
  const int64_t num_pages = std::ssize(pages);
  CHECK(num_pages <= view_.dim(1), "row={} pages={} max_pages={}", row,
        num_pages, view_.dim(1));
  int64_t& num_known = num_known_[static_cast<size_t>(row)];
  uint32_t* known = RowOf(mirror_, row, 0, view_.dim(1)).As<uint32_t>();
  const auto differs = [&](int64_t i) {
    return i >= num_known || known[i] != pages[static_cast<size_t>(i)].value();
  };
  int64_t first = 0, end = num_pages;
  while (first < end && !differs(first)) ++first;
  while (end > first && !differs(end - 1)) --end;
  if (first == end) return 0;
  const View from = RowOf(staging_[turn_], row, first, end - first);
  for (int64_t i = first; i < end; ++i) {
    const uint32_t extent = pages[static_cast<size_t>(i)].value();
    CHECK(extent < num_extents_ || extent == kNotWhole,
          "row={} page={} extent={} num_extents={}", row, i, extent,
          num_extents_);
    known[i] = from.As<uint32_t>()[i - first] = extent;
  }
  num_known = std::max(num_known, end);
  backend_->Copy(queue, from, RowOf(device_, row, first, end - first));
  return end - first;
}

View DevicePageTable::RowOf(const Buffer& buffer, int64_t row, int64_t first,
                            int64_t count) const {
  const auto offset = static_cast<size_t>(row * view_.dim(1) + first);
  return buffer.At(offset * sizeof(uint32_t), Dtype::kUInt32, {count});
}

}  // namespace winnow
