// What a case's fixture says of a result.
#ifndef WINNOW_TESTS_ORACLE_EXPECT_CASE_H_
#define WINNOW_TESTS_ORACLE_EXPECT_CASE_H_

#include "tests/oracle/oracle_case.h"

namespace winnow {

// Of one case of a batch, whose rows begin at `first_row`: the picks of every
// row, and the outputs of those that the fixture probes.
void ExpectCase(const OracleCase& oracle, const SparseResult& got,
                int64_t first_row);

}  // namespace winnow

#endif  // WINNOW_TESTS_ORACLE_EXPECT_CASE_H_
