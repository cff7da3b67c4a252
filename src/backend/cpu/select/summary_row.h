// A summary's numbers, in whatever type they are kept.
#ifndef WINNOW_BACKEND_CPU_SELECT_SUMMARY_ROW_H_
#define WINNOW_BACKEND_CPU_SELECT_SUMMARY_ROW_H_

#include <span>

#include "backend/contract/summary_table.h"
#include "backend/cpu/isa/float_types.h"

namespace winnow {

// Where, behind its `width` numbers, a row of E4M3 has the float32 that these
// are multiples of.
int64_t Float8ScaleAt(int width);

// Writes `numbers` as a row of E4M3. Where `bounds`, the first
// half is rounded down and the second up; else all to the nearest.
void WriteFloat8Row(std::span<const float> numbers, bool bounds,
                    std::byte* row);

// The numbers of one row, as many as `to` takes.
void ReadSummaryRow(const SummaryRows& rows, const std::byte* row,
                    std::span<float> to);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_SUMMARY_ROW_H_
