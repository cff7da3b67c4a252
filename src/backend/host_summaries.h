// HostSummaries: what a device keeps of keys, for tests to look at.
#ifndef WINNOW_BACKEND_HOST_SUMMARIES_H_
#define WINNOW_BACKEND_HOST_SUMMARIES_H_

#include <algorithm>
#include <vector>

#include "backend/sparse_case.h"
#include "backend/summary_table.h"

namespace winnow {

// Summaries as a step left them, where the host can read them; `table` is of
// its own bytes.
struct HostSummaries {
  std::vector<std::byte> bytes;
  std::vector<int32_t> first;
  std::vector<uint32_t> segments;
  SummaryTable table;

  HostSummaries(TestDevice& device, const SummaryTable& of) : table(of) {
    const TestArray rows = device.Download(of.segments.first);
    first.assign(rows.values.begin(), rows.values.end());
    const TestArray numbers = device.Download(of.segments.entries);
    segments.assign(numbers.values.begin(), numbers.values.end());
    const auto num_segments =
        std::ssize(segments) - std::ranges::count(segments, kNoSummaries);
    bytes = device.DownloadBytes(MakeView(
        of.rows, Dtype::kUInt8, {of.segment_stride_bytes * num_segments}));
    table.rows = bytes.data();
    table.segments = {
        .first = MakeView(first.data(), Dtype::kInt32, {std::ssize(first)}),
        .entries =
            MakeView(segments.data(), Dtype::kUInt32, {std::ssize(segments)})};
  }
  HostSummaries(const HostSummaries&) = delete;
  HostSummaries& operator=(const HostSummaries&) = delete;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_HOST_SUMMARIES_H_
