// BenchFetch: Fetch's lookup, for winnow bench ops.
#ifndef WINNOW_BENCH_OPS_BENCH_FETCH_H_
#define WINNOW_BENCH_OPS_BENCH_FETCH_H_

#include <memory>
#include <random>
#include <vector>

#include "backend/backend.h"
#include "base/ids.h"
#include "bench/roofs/bench_memory.h"

namespace winnow {

// Owns the tables of requests with offloaded pages. Each has cache slots for
// four times its picks in a step, and all picks are in slots. So this measures
// Fetch without misses. It touches no KV, so none exists. Each run is a decode
// step of the next layer, with other picks.
class BenchFetch {
 public:
  struct Shape {
    int num_kv_heads = 0;
    int head_dim = 0;
    Dtype kv_dtype = Dtype::kBFloat16;
    int num_requests = 0;
    // Picks in a layer over all KV heads; each fills a cache slot.
    int picks_a_request = 0;
    int slot_tokens = kPageTokens;
  };
  // REQUIRES: backend outlives this; the CPU can read its memory.
  static Result<std::unique_ptr<BenchFetch>> Create(Backend& backend,
                                                    const Shape& shape);

  void Run();
  // Bytes of a run: picks, and the words of tables and state that they lead to.
  double bytes() const;

 private:
  BenchFetch(Backend& backend, const Shape& shape);
  Status AllocateRows();
  Status AllocateTables();
  Status AllocatePicks();
  void FillSlots(SlotTable& slots, std::minstd_rand& random) const;

  BenchMemory memory_;
  const Shape shape_;
  const int pieces_, picks_a_head_, num_slots_, num_pages_;
  LayerCache cache_;
  LayerStep step_;
  std::vector<SlotTable> layers_;
  std::vector<PickLists> lists_;
  View counts_;  // u32 [requests, kNumFetchCounts]
  size_t run_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_BENCH_FETCH_H_
