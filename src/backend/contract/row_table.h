// Rows of different lengths in one array, as plain data that kernels read.
#ifndef WINNOW_BACKEND_CONTRACT_ROW_TABLE_H_
#define WINNOW_BACKEND_CONTRACT_ROW_TABLE_H_

#include <cstdint>

#include "tensor/view.h"

namespace winnow {

// Entry i of row r is entries[first[r] + i]: such a table takes as much as its
// rows have, not rows times the longest (FlashInfer's page tables are of this
// kind). Which entries a row has, who reads it knows; where the first ones are
// left out, `first` may be negative.
struct RowTable {
  View first;    // i32 [rows]
  View entries;  // u32 [entries of all rows]

  bool empty() const { return entries.empty(); }
  // On the host. REQUIRES of Row: the row has an entry 0.
  uint32_t At(int64_t row, int64_t i) const {
    return entries.As<uint32_t>()[first.As<int32_t>()[row] + i];
  }
  uint32_t* Row(int64_t row) const {
    return entries.As<uint32_t>() + first.As<int32_t>()[row];
  }
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONTRACT_ROW_TABLE_H_
