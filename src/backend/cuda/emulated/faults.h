// Failures of the emulated runtime, for tests of what becomes of them.
#ifndef WINNOW_BACKEND_CUDA_EMULATED_FAULTS_H_
#define WINNOW_BACKEND_CUDA_EMULATED_FAULTS_H_

#include <string_view>

namespace winnow::emulated {

// Of the calls that a device may refuse (allocations, launches, copies,
// streams, events, graphs), the one with this index fails, once: counted from
// here on, while armed. Below 0: none does. What failed before is forgotten.
void FailCall(int index);
// Returns how it was.
bool SetArmed(bool armed);
// The call that has failed since FailCall; empty: none.
std::string_view RefusedCall();

}  // namespace winnow::emulated

#endif  // WINNOW_BACKEND_CUDA_EMULATED_FAULTS_H_
