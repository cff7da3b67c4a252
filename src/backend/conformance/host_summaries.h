// HostSummaries: what a device keeps of keys, for tests to look at.
#ifndef WINNOW_BACKEND_CONFORMANCE_HOST_SUMMARIES_H_
#define WINNOW_BACKEND_CONFORMANCE_HOST_SUMMARIES_H_

#include <algorithm>
#include <vector>

#include "backend/conformance/sparse_case.h"
#include "backend/contract/summary_table.h"

namespace winnow {

// A table of segments and all that lies in them, where the host can read it;
// `table` is of its own numbers.
struct HostSegments {
  std::vector<int32_t> first;
  std::vector<uint32_t> numbers;
  RowTable table;
  std::vector<std::byte> bytes;

  // Segments lie at `data`, one every `stride_bytes`.
  HostSegments(TestDevice& device, const RowTable& of, std::byte* data,
               int64_t stride_bytes) {
    const TestArray rows = device.Download(of.first);
    first.assign(rows.values.begin(), rows.values.end());
    const TestArray entries = device.Download(of.entries);
    numbers.assign(entries.values.begin(), entries.values.end());
    table = {
        .first = MakeView(first.data(), Dtype::kInt32, {std::ssize(first)}),
        .entries =
            MakeView(numbers.data(), Dtype::kUInt32, {std::ssize(numbers)})};
    const auto count =
        std::ssize(numbers) - std::ranges::count(numbers, kNoSummaries);
    bytes = device.DownloadBytes(
        MakeView(data, Dtype::kUInt8, {stride_bytes * count}));
  }
  HostSegments(const HostSegments&) = delete;
  HostSegments& operator=(const HostSegments&) = delete;
};

// Summaries as a step left them, where the host can read them.
struct HostSummaries {
  HostSegments segments;
  SummaryTable table;

  HostSummaries(TestDevice& device, const SummaryTable& of)
      : segments(device, of.segments, of.rows, of.segment_stride_bytes),
        table(of) {
    table.rows = segments.bytes.data();
    table.segments = segments.table;
  }
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONFORMANCE_HOST_SUMMARIES_H_
