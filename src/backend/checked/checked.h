// Checked: runs every op on two backends and compares.
#ifndef WINNOW_BACKEND_CHECKED_CHECKED_H_
#define WINNOW_BACKEND_CHECKED_CHECKED_H_

#include <memory>

#include "backend/backend.h"

namespace winnow {

// A backend that does what `subject` does, and every op again on
// `reference`, from the same numbers; what the subject made is compared, and
// then copied into the reference's memory, so that the next op starts alike.
// The first op that disagrees is kept: Wait fails with its name, how many
// ops came before, where, and both values.
//
// Agreement: a float within 1/64 of the greatest of its row; sampled tokens
// equal; of each list of picks, as many on both sides and all but an eighth
// the same. Bugs are coarser than that, rounding is finer.
//
// Twice the memory, and the reference's time: for finding a fault in a model
// that runs wrong, and for tests. REQUIRES: the reference's device memory is
// the host's.
std::unique_ptr<Backend> MakeCheckedBackend(std::unique_ptr<Backend> subject,
                                            std::unique_ptr<Backend> reference);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CHECKED_CHECKED_H_
