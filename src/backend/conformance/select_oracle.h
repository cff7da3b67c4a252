// The scores that a program gives to partitions, in float64, from keys alone.
#ifndef WINNOW_BACKEND_CONFORMANCE_SELECT_ORACLE_H_
#define WINNOW_BACKEND_CONFORMANCE_SELECT_ORACLE_H_

#include <span>
#include <vector>

#include "backend/conformance/sparse_case.h"

namespace winnow {

// A score, and how far float32 sums and the roundings that a program asks for
// may take a backend from it.
struct BoundedScore {
  double value = 0;
  double slack = 0;
};

// Half a unit in the last place of a number around 1; of float8_e4m3 float32's,
// as its own rounding is counted by itself.
double HalfUnitOf(Dtype dtype);

// Of each partition of the row's context; -infinity where it has no row.
// Written from the comments of select_program.h, and not from a backend.
std::vector<BoundedScore> OracleScores(const SparseCase& sparse,
                                       const SelectProgram& program,
                                       size_t request, int64_t row,
                                       int64_t context, int list);

// Which partitions are read whatever their score.
std::vector<bool> OracleForced(const SelectProgram& program, int64_t context);

// Partitions of a context by whether a list reads them.
struct ListedPartitions {
  int64_t num_forced = 0;            // all of which it reads
  std::vector<size_t> chosen, left;  // of the others
};

// Of a list that names `tokens` of the context. Expects it to read partitions
// whole or not at all, the forced ones among them.
ListedPartitions ExpectPartitions(const SelectProgram& program, int64_t context,
                                  const std::vector<bool>& tokens);

// Expects as many to be chosen as the program's budget says, beside the forced
// ones.
void ExpectBudget(const SelectProgram& program, int64_t context,
                  const ListedPartitions& partitions);

// Expects none that is chosen to score less than one that is left.
void ExpectBest(const ListedPartitions& partitions,
                std::span<const BoundedScore> scores);

// A list of a row.
struct RowList {
  size_t request = 0;
  int64_t row = 0;
  int64_t context = 0;
  int list = 0;
};

// All of these: what is chosen is forced, or scores no less than what is not.
void ExpectChoice(const SparseCase& sparse, const SelectProgram& program,
                  const RowList& of, const std::vector<Pick>& picks);

// One row whose summaries are many, of the shape's type.
SparseCase ManySummariesCase(const KvShape& shape, int32_t context,
                             RandomSource& random);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONFORMANCE_SELECT_ORACLE_H_
