// The size of the tables that lead to KV. Memory bounds it, not a request's
// greatest length.
#ifndef WINNOW_KV_TABLE_CAPACITY_H_
#define WINNOW_KV_TABLE_CAPACITY_H_

#include <cstdint>

namespace winnow {

// Running requests whose page tables may each name the whole device. Requests
// that share pages name more pages together than exist. Beyond this number a
// request that does not fit waits or is preempted
// (SchedulerLimits::num_table_pages).
inline constexpr int kTableSharers = 64;

struct TableCapacity {
  int64_t num_kv_blocks = 0;
  int64_t num_host_kv_blocks = 0;
  int max_sequences = 0;  // that run at once
  int max_sharers = kTableSharers;
};

// Table entries for all running requests. KvCache counts each page of the host
// as offloaded for one request alone.
int64_t NumTablePages(const TableCapacity& room);

// The same for prompts that are read layer by layer. No two of them share a
// page.
int64_t NumPromptTablePages(const TableCapacity& room);

// Segments of slot entries that always suffice. The offloaded pages of one
// sequence are consecutive, and begin and end within a segment.
int64_t NumSlotSegments(const TableCapacity& room);

// The summaries of requests, in segments of `segment_tokens`.
struct SummaryCapacity {
  TableCapacity tables;
  int segment_tokens = 0;
  int64_t max_tokens = 0;  // of a sequence
};

// Segments that suffice for everything on device and host. Counts the running
// requests and as many held prefixes, each with one partial segment, and their
// offloaded pages. Never exceeds the sum of all at their greatest length.
// Requests with the same pages must share segments or wait (Admission).
// Prefixes and one more request always fit, because their pages fit the device
// even if unshared.
int64_t NumSummarySegments(const SummaryCapacity& room);

// Entries of the table of a step's segments, for page tables of at most
// NumTablePages pages.
int64_t NumSummaryTableEntries(const SummaryCapacity& room);

// Segments for fixed choices, which requests with shared pages do not share.
// Counts the page tables of running requests and the pages of held prefixes;
// admission counts both.
int64_t NumFixedSegments(const SummaryCapacity& room);

// Chunks of slot state for sequences with `layer_frames` slot blocks on average
// in each of `num_layers`. Bounded by the layer blocks of the device.
int64_t NumSlotChunks(const TableCapacity& room, int num_layers,
                      int64_t layer_frames);

}  // namespace winnow

#endif  // WINNOW_KV_TABLE_CAPACITY_H_
