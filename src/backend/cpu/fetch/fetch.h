// Fetch on the CPU: finds what is picked, makes room, fetches what is missing.
#ifndef WINNOW_BACKEND_CPU_FETCH_FETCH_H_
#define WINNOW_BACKEND_CPU_FETCH_FETCH_H_

#include <array>
#include <vector>

#include "backend/backend.h"
#include "backend/contract/replacement.h"
#include "base/thread_pool.h"

namespace winnow {

// What a worker keeps while it brings for one request and KV head: sized once.
struct FetchScratch {
  std::vector<SlotUse> uses;      // [kMaxSlots]
  std::vector<uint8_t> ranks;     // [kMaxSlots]
  std::vector<uint32_t> missing;  // [2 * kMaxSlots]: pieces, picks' then hints'
  FetchScratch();
};

// Grows to the greatest step so far.
struct FetchWorkspace {
  explicit FetchWorkspace(int num_workers)
      : workers(static_cast<size_t>(num_workers)) {}

  std::vector<FetchScratch> workers;
  // [requests * kv_heads]: each counts for itself, and who adds them up at the
  // end waits for nobody.
  std::vector<std::array<uint32_t, kNumFetchCounts>> counts;
};

// The truth, and all there is: an item a request and KV head, walked in the
// order of rows, lists, ranks and pieces, as the contract in backend.h says.
// `workspace` has a worker for each of `pool`.
void FetchPieces(const LayerStep& step, const FetchArgs& args,
                 const LayerCache& cache, FetchWorkspace& workspace,
                 ThreadPool& pool);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_FETCH_FETCH_H_
