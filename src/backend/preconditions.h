// The preconditions of ops, the same on every backend: shapes and dtypes of
// the arguments that the host sees. A broken one is the caller's bug and stops
// the program with its values. What only one backend cannot do is that
// backend's own to check.
#ifndef WINNOW_BACKEND_PRECONDITIONS_H_
#define WINNOW_BACKEND_PRECONDITIONS_H_

#include "backend/backend.h"

namespace winnow {

void CheckLinear(const LinearArgs& args);
void CheckAppend(const LayerStep& step, const TokenInputs& inputs,
                 const LayerCache& cache);
void CheckFetch(const LayerStep& step, const FetchArgs& args,
                const LayerCache& cache);
void CheckAttend(const LayerStep& step, const AttendArgs& args,
                 const LayerCache& cache);
void CheckSelect(const LayerStep& step, const SelectArgs& args,
                 const LayerCache& cache);
void CheckMergeStates(const LayerStep& step, const MergeStatesArgs& args);
void CheckSample(const SampleArgs& args);

}  // namespace winnow

#endif  // WINNOW_BACKEND_PRECONDITIONS_H_
