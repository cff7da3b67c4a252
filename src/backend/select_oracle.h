// The scores that a program gives to partitions, in float64, from keys alone.
#ifndef WINNOW_BACKEND_SELECT_ORACLE_H_
#define WINNOW_BACKEND_SELECT_ORACLE_H_

#include <vector>

#include "backend/sparse_case.h"

namespace winnow {

// A score, and how far float32 sums and the roundings that a program asks for
// may take a backend from it.
struct BoundedScore {
  double value = 0;
  double slack = 0;
};

// Of each partition of the row's context; -infinity where it has no row.
// Written from the comments of select_program.h, and not from a backend.
std::vector<BoundedScore> OracleScores(const SparseCase& sparse,
                                       const SelectProgram& program,
                                       size_t request, int64_t row,
                                       int64_t context, int list);

// Which partitions are read whatever their score.
std::vector<bool> OracleForced(const SelectProgram& program, int64_t context);

}  // namespace winnow

#endif  // WINNOW_BACKEND_SELECT_ORACLE_H_
