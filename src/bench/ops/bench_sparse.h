// BenchSparse: ClusterKeys, Select, and Attend over its picks, for winnow bench
// ops.
#ifndef WINNOW_BENCH_OPS_BENCH_SPARSE_H_
#define WINNOW_BENCH_OPS_BENCH_SPARSE_H_

#include <memory>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "bench/roofs/roof.h"
#include "model/forward/dtypes.h"

namespace winnow {

// Owns the KV of one request of random tokens, with pages in random order, and
// a selector's data for it. KV and summaries have so many layers that no cache
// holds them. Gates are random, and a fixed choice is made once, at the row
// before the step. Each run is a decode step of the next layer, with another q.
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
  // Recomputes all clusters of the layer. REQUIRES: the selector has clusters.
  void ClusterKeys();
  void Select();
  void ReadPicks();
  // REQUIRES: the selector estimates.
  void ReadEstimates();
  void ReadEverything();

  bool has_clusters() const;
  bool estimates() const { return program_.estimate.value > 0; }
  // Of one layer: the bytes and flops of ClusterKeys.
  double indexed_bytes() const;
  double index_flops() const;
  // Bytes of one layer: summaries; Select's lists; K and V of the picks; keys
  // and values of the estimated clusters; all K and V.
  double summary_bytes() const;
  double list_bytes() const;
  // Of scores alone: q with every row, and a gate's query.
  double select_flops() const;
  double picked_bytes() const;
  double estimated_bytes() const;
  double kv_bytes() const;

  // This layer's summaries, and K and V of the last picks, which may be another
  // layer's.
  std::vector<Bytes> Summaries() const;
  std::vector<Bytes> Picked() const;

 private:
  BenchSparse(Backend& backend, const Shape& shape)
      : backend_(backend), shape_(shape), queue_(backend.MakeQueue()) {}
  Result<View> Take(Dtype dtype, std::initializer_list<int64_t> shape);
  Result<View> TakeRandom(Dtype dtype, std::initializer_list<int64_t> shape);
  Result<View> TakeInteger(int64_t value);
  // Tokens with scored rows.
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
  View estimate_, lse_;  // f32, if the selector estimates
  // For gates: no rotation.
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
