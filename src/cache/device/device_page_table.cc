#include "cache/device/device_page_table.h"

#include <algorithm>
#include <string>
#include <utility>

namespace winnow {

namespace {

// What a row that has so many entries is to have room for besides.
int64_t WantedBehind(int64_t count) { return count / 4 + 64; }

}  // namespace

size_t DevicePageTable::NumBytes(const DevicePageTableOptions& options) {
  return static_cast<size_t>(options.max_requests + options.num_entries) *
         sizeof(uint32_t);
}

Result<DevicePageTable> DevicePageTable::Create(
    Backend& backend, const DevicePageTableOptions& options) {
  CHECK(options.max_requests > 0 && options.num_entries > 0 &&
            options.num_kv_blocks > 0,
        "max_requests={} num_entries={} num_kv_blocks={}", options.max_requests,
        options.num_entries, options.num_kv_blocks);
  const std::string purpose =
      fmt::format("page tables of {} requests, {} pages in all",
                  options.max_requests, options.num_entries);
  const size_t num_bytes = NumBytes(options);
  ASSIGN_OR_RETURN(Buffer device,
                   backend.Allocate(Tier::kDevice, num_bytes, purpose));
  ASSIGN_OR_RETURN(Buffer mirror, Buffer::AllocateHost(num_bytes, purpose));
  DevicePageTable table(backend, options, std::move(device), std::move(mirror));
  for (Buffer& staging : table.staging_) {
    ASSIGN_OR_RETURN(staging,
                     backend.Allocate(Tier::kHost, num_bytes, purpose));
  }
  return table;
}

DevicePageTable::DevicePageTable(Backend& backend,
                                 const DevicePageTableOptions& options,
                                 Buffer device, Buffer mirror)
    : backend_(&backend),
      options_(options),
      device_(std::move(device)),
      mirror_(std::move(mirror)),
      rows_{.first = FirstOf(device_),
            .entries = EntriesOf(device_, 0, options.num_entries)},
      places_(static_cast<size_t>(options.max_requests)) {}

int64_t DevicePageTable::Write(
    Queue& queue, std::span<const std::span<const KvBlockId>> pages) {
  CHECK(std::ssize(pages) <= options_.max_requests,
        "requests={} max_requests={}", pages.size(), options_.max_requests);
  turn_ = (turn_ + 1) % staging_.size();
  for (size_t row = 0; row < pages.size(); ++row) {
    if (std::ssize(pages[row]) <= places_[row].room) continue;
    PlaceRows(row, pages);
    SendFirst(queue);
    break;
  }
  int64_t num_sent = 0;
  for (size_t row = 0; row < pages.size(); ++row) {
    num_sent += WriteRow(queue, row, pages[row]);
  }
  return num_sent;
}

void DevicePageTable::PlaceRows(
    size_t row, std::span<const std::span<const KvBlockId>> pages) {
  int64_t at = row == 0 ? 0 : places_[row - 1].first + places_[row - 1].room;
  int64_t num_pages = 0, num_wanted = 0;
  for (const auto& each : pages.subspan(row)) {
    num_pages += std::ssize(each);
    num_wanted += WantedBehind(std::ssize(each));
  }
  const int64_t num_spare = options_.num_entries - at - num_pages;
  if (num_spare < 0 && row > 0) return PlaceRows(0, pages);
  CHECK(num_spare >= 0, "pages={} num_entries={}", num_pages,
        options_.num_entries);
  const int64_t num_given = std::min(num_spare, num_wanted);
  for (size_t i = row; i < places_.size(); ++i) {
    places_[i] = {.first = at};
    if (i >= pages.size()) continue;
    const int64_t count = std::ssize(pages[i]);
    places_[i].room = count + WantedBehind(count) * num_given / num_wanted;
    at += places_[i].room;
  }
}

void DevicePageTable::SendFirst(Queue& queue) {
  const View from = FirstOf(staging_[turn_]);
  for (size_t i = 0; i < places_.size(); ++i) {
    from.As<int32_t>()[i] = static_cast<int32_t>(places_[i].first);
  }
  backend_->Copy(queue, from, rows_.first);
}

int64_t DevicePageTable::WriteRow(Queue& queue, size_t row,
                                  std::span<const KvBlockId> pages) {
  Row& place = places_[row];
  uint32_t* known = EntriesOf(mirror_, place.first, place.room).As<uint32_t>();
  const auto differs = [&](int64_t i) {
    return i >= place.num_known ||
           known[i] != pages[static_cast<size_t>(i)].value();
  };
  int64_t first = 0, end = std::ssize(pages);
  while (first < end && !differs(first)) ++first;
  while (end > first && !differs(end - 1)) --end;
  if (first == end) return 0;
  const View from =
      EntriesOf(staging_[turn_], place.first + first, end - first);
  for (int64_t i = first; i < end; ++i) {
    const uint32_t kv_block = pages[static_cast<size_t>(i)].value();
    CHECK(kv_block < options_.num_kv_blocks || kv_block == kNotWhole,
          "row={} page={} KV block={} num_kv_blocks={}", row, i, kv_block,
          options_.num_kv_blocks);
    known[i] = from.As<uint32_t>()[i - first] = kv_block;
  }
  place.num_known = std::max(place.num_known, end);
  backend_->Copy(queue, from,
                 EntriesOf(device_, place.first + first, end - first));
  return end - first;
}

View DevicePageTable::EntriesOf(const Buffer& buffer, int64_t first,
                                int64_t count) const {
  const auto at = static_cast<size_t>(options_.max_requests + first);
  return buffer.At(at * sizeof(uint32_t), Dtype::kUInt32, {count});
}

View DevicePageTable::FirstOf(const Buffer& buffer) const {
  return buffer.At(0, Dtype::kInt32, {options_.max_requests});
}

}  // namespace winnow
