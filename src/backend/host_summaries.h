// HostSummaries: what a device keeps of keys, for tests to look at.
#ifndef WINNOW_BACKEND_HOST_SUMMARIES_H_
#define WINNOW_BACKEND_HOST_SUMMARIES_H_

#include <vector>

#include "backend/summary_table.h"
#include "backend/test_array.h"

namespace winnow {

// Summaries as a step left them, where the host can read them; `table` is of
// its own bytes.
struct HostSummaries {
  std::vector<std::byte> bytes;
  std::vector<uint32_t> segments;
  SummaryTable table;

  HostSummaries(TestDevice& device, const SummaryTable& of) : table(of) {
    const TestArray numbers = device.Download(of.segments);
    segments.assign(numbers.values.begin(), numbers.values.end());
    View all;
    all.data = of.rows;
    all.dtype = Dtype::kUInt8;
    all.rank = 1;
    all.shape[0] = of.segment_stride_bytes * std::ssize(segments);
    all.stride[0] = 1;
    bytes = device.DownloadBytes(all);
    table.rows = bytes.data();
    table.segments.data = reinterpret_cast<std::byte*>(segments.data());
    table.segments.stride = {of.segments.dim(1), 1};
  }
  HostSummaries(const HostSummaries&) = delete;
  HostSummaries& operator=(const HostSummaries&) = delete;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_HOST_SUMMARIES_H_
