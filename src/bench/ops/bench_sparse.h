// ClusterKeys, Select, and Attend over what it chose, for winnow bench ops.
#ifndef WINNOW_BENCH_OPS_BENCH_SPARSE_H_
#define WINNOW_BENCH_OPS_BENCH_SPARSE_H_

#include <memory>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "bench/roofs/roof.h"
#include "model/forward/dtypes.h"

namespace winnow {

// Owns the KV of one request of random tokens, pages in random order, and what
// a selector keeps of it: summaries, of either as many layers as no cache
// keeps; random gates; a choice that is made once, at the row before the
// step's. Each run is a decode step of the next layer, with another q.
class BenchSparse {
 public:
  struct Shape {
    int num_q_heads = 0;
    int num_kv_heads = 0;
    int head_dim = 0;
    Dtypes dtypes = {};  // of KV, and of q and out
    int64_t context_tokens = 0;
  };
  // REQUIRES: backend outlives this.
  static Result<std::unique_ptr<BenchSparse>> Create(Backend& backend,
                                                     const Shape& shape,
                                                     std::string_view spec);

  void NextLayer();
  // All clusters of the layer anew. REQUIRES: the selector has clusters.
  void ClusterKeys();
  void Select();
  void ReadPicks();
  // REQUIRES: the selector estimates.
  void ReadEstimates();
  void ReadEverything();

  bool has_clusters() const;
  bool estimates() const { return program_.estimate.value > 0; }
  // Of one layer: what ClusterKeys reads and multiplies.
  double indexed_bytes() const;
  double index_flops() const;
  // Of one layer: summaries, what Select makes of them as lists, K and V that
  // are picked, keys and values of the clusters that are estimated, all K and
  // V.
  double summary_bytes() const;
  double list_bytes() const;
  // Of scores alone: q with every row, and a gate's query.
  double select_flops() const;
  double picked_bytes() const;
  double estimated_bytes() const;
  double kv_bytes() const;

  // Where this layer's summaries stand, and K and V of what is picked; the last
  // picks' places, whichever layer they were chosen in.
  std::vector<Bytes> Summaries() const;
  std::vector<Bytes> Picked() const;

 private:
  BenchSparse(Backend& backend, const Shape& shape)
      : backend_(backend), shape_(shape), queue_(backend.MakeQueue()) {}
  Result<View> Take(Dtype dtype, std::initializer_list<int64_t> shape);
  Result<View> TakeRandom(Dtype dtype, std::initializer_list<int64_t> shape);
  Result<View> TakeInteger(int64_t value);
  // Tokens whose rows have scores.
  int64_t scored_tokens() const;
  bool scores_keys() const {
    return program_.rows.kind == SummaryRows::Kind::kKeys;
  }
  bool has_gate() const {
    return program_.rows.kind == SummaryRows::Kind::kGate;
  }
  Status AllocateKv();
  Status AllocateSummaries();
  Status AllocateRow();
  Status AllocateGate();
  Status AllocateFixed();
  void SummarizeLayers();
  AttendArgs Args(const AttendSource& source);
  void SetLayer(int64_t layer);

  Backend& backend_;
  const Shape shape_;
  std::unique_ptr<Queue> queue_;
  std::vector<Buffer> buffers_;
  SelectProgram program_;
  LayerSelector selector_;
  LayerCache cache_;
  LayerStep step_;
  PickLists lists_;
  View q_, out_;         // q of many steps: [kNumQueries, q_heads, head_dim]
  View estimate_, lse_;  // f32, where the selector estimates
  // Where there are gates: no rotation.
  View cos_sin_, frequencies_, rope_scale_;
  std::byte* layer_blocks_ = nullptr;  // of layer 0
  std::byte* summaries_ = nullptr;     // of layer 0
  int64_t layer_kv_bytes_ = 0;
  int64_t layer_summary_bytes_ = 0;
  int64_t num_kv_layers_ = 0;
  int64_t num_summary_layers_ = 0;
  int64_t layer_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_BENCH_SPARSE_H_
