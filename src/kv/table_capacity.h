// How large the tables are that lead to KV: by what memory can hold, never by
// how long a request may become.
#ifndef WINNOW_KV_TABLE_CAPACITY_H_
#define WINNOW_KV_TABLE_CAPACITY_H_

#include <cstdint>

namespace winnow {

// Requests that run whose page tables may each name the whole device: as they
// share pages, what they name together is more than there is. With more than so
// many, who would not fit waits or is preempted
// (SchedulerLimits::num_table_pages).
inline constexpr int kTableSharers = 64;

struct TableCapacity {
  int64_t num_kv_blocks = 0;
  int64_t num_host_kv_blocks = 0;
  int max_sequences = 0;  // that run at once
  int max_sharers = kTableSharers;
};

// Pages that the requests that run have together: each page of the host is
// far for one of them at most (KvCache counts them so).
int64_t NumTablePages(const TableCapacity& room);

// The same of those that are read layer by layer: no two of them share one.
int64_t NumPromptTablePages(const TableCapacity& room);

// Segments of slot entries that suffice whatever is far: pages of one sequence
// that are far stand one after another, and begin and end within a segment.
int64_t NumSlotSegments(const TableCapacity& room);

// What requests have of summaries, by segments of `segment_tokens`.
struct SummaryCapacity {
  TableCapacity tables;
  int segment_tokens = 0;
  int64_t max_tokens = 0;  // of a sequence
};

// Segments that suffice whatever device and host hold: for those who run, and
// as many prefixes that are held, each with one that is not full; of what is
// far of them, and never more than all of them at their longest have. Those
// with the same pages have to share their segments, or wait (Admission). For
// prefixes and one other there are enough in any case: their pages fit the
// device together, as if they shared none.
int64_t NumSummarySegments(const SummaryCapacity& room);

// Entries of a table that says where the segments of a step's requests are, of
// which page tables have no more pages than NumTablePages.
int64_t NumSummaryTableEntries(const SummaryCapacity& room);

// Segments of what a choice has fixed, which those that share pages do not
// share: as many as those who run have by page tables, which admission counts,
// and as prefixes have that are held, whose pages admission counts for each.
int64_t NumFixedSegments(const SummaryCapacity& room);

// Chunks of slot state that suffice for sequences with `layer_frames` in each
// of `num_layers` on the average, as far as the device has layer blocks for
// them.
int64_t NumSlotChunks(const TableCapacity& room, int num_layers,
                      int64_t layer_frames);

}  // namespace winnow

#endif  // WINNOW_KV_TABLE_CAPACITY_H_
