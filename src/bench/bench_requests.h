// A batch of requests over some layers of one shape, for what ops take on
// any device.
#ifndef WINNOW_BENCH_BENCH_REQUESTS_H_
#define WINNOW_BENCH_BENCH_REQUESTS_H_

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "bench/roofs/bench_memory.h"
#include "model/forward/dtypes.h"

namespace winnow {

// Owns the KV of requests of equal length, random numbers in pages in random
// order, and what a selector keeps of it, of some layers: summaries, clusters,
// random gates, choices that are made once, at the row before the step's; and a
// step's rows: the last token of each request as a decode row, or each
// request whole as prefill rows. Ops are enqueued on its queue, and nothing is
// waited for.
class BenchRequests {
 public:
  // Which layer blocks of the pool lie next to each other.
  enum class PoolOrder { kLayerMajor, kKvBlockMajor };
  // Where values lie: behind their page's keys (what the engine has), or behind
  // all of the layer's. The latter wants a layer-major pool and summaries
  // apart.
  enum class ValuePlace { kBehindKeys, kApart };
  // Where summaries lie: in segments of many pages (what the engine has), one
  // page after the other in any order, or behind the page's own K and V. The
  // last two need a row a page, and no second level.
  enum class SummaryPlace { kSegments, kPages, kBesideKv };
  struct Shape {
    int num_q_heads = 0;
    int num_kv_heads = 0;
    int head_dim = 0;
    Dtypes dtypes = {};  // of KV, and of q and out
    int batch = 1;
    int64_t context_tokens = 0;
    int num_layers = 1;
    bool prefill_rows = false;
    std::string select = {};  // SPEC; empty: nothing is chosen
    PoolOrder pool_order = PoolOrder::kLayerMajor;
    ValuePlace value_place = ValuePlace::kBehindKeys;
    SummaryPlace summary_place = SummaryPlace::kSegments;
    // Select names next ranks too, up to so many times the budget; 0: it does
    // not.
    double next_times = 0;
  };
  // Of one layer: KV of all requests. (Summaries come on top.)
  static int64_t LayerBytes(const Shape& shape);
  // REQUIRES: backend outlives this; its device runs the selector.
  static Result<std::unique_ptr<BenchRequests>> Create(Backend& backend,
                                                       const Shape& shape);

  Queue& queue() const { return memory_.queue(); }
  const Shape& shape() const { return shape_; }
  LayerCache CacheOf(int layer) const;
  LayerSelector SelectorOf(int layer) const;

  void Append(int layer);
  // Closes what the rows' last token completes. REQUIRES of these: a selector.
  void Summarize(int layer);
  void Select(int layer);
  // All that is kept, from the first token on: rows, and choices that end with
  // the context; clusters.
  void SummarizeAll(int layer);
  void ClusterKeys(int layer);
  // Of what Select has estimated. MergeStates: of that and of as much again.
  // REQUIRES: the selector estimates.
  void ReadEstimates(int layer);
  void MergeStates();
  void ReadPicks(int layer);
  void ReadEverything(int layer);

  // Of one layer's op, what must be moved at least: q, k and v that come,
  // what becomes of them; keys that are summarised; summaries; K and V.
  double append_bytes() const;
  double summarized_bytes() const;
  double summary_bytes() const;
  // Of a gate: weights, once, and their products.
  double gate_query_bytes() const;
  double gate_query_flops() const;
  double select_flops() const;  // gates' queries, and scores
  // Of SummarizeAll: keys, once, and what comes of them.
  double all_summaries_bytes() const;
  double all_summaries_flops() const;
  double index_bytes() const;  // keys and values, once, and what is kept
  double index_flops() const;
  double combine_bytes() const;
  double kv_bytes() const;
  // q k^T and p v that causality leaves, of a layer.
  double read_flops() const;
  // K and V that the lists of the last Select name; waits for it.
  Result<double> PickedBytes();
  // What is kept of the clusters that they estimate.
  Result<double> EstimatedBytes();

 private:
  BenchRequests(Backend& backend, const Shape& shape)
      : backend_(backend), shape_(shape), memory_(backend) {}
  Status TakeKv();
  Status TakeRows();
  Status MakeProgram();
  Status TakeSummaries();
  int64_t layer_block_bytes() const;
  Status TakeLists();
  Status TakeGates();
  Status TakeFixed();
  Status TakeEstimates();
  Status TakeNext();
  SummarizeArgs SummarizeArgsOf(const LayerSelector& selector) const;
  View QueryOf(int layer) const;
  bool has_gates() const {
    return program_.rows.kind == SummaryRows::Kind::kGate;
  }
  bool has_clusters() const {
    return program_.rows.kind == SummaryRows::Kind::kClusters;
  }
  // Summary rows of all requests and KV heads, of a layer.
  double num_rows(const SummaryRows& rows) const;
  AttendArgs ArgsOf(int layer, const AttendSource& source) const;
  int64_t rows_a_request() const {
    return shape_.prefill_rows ? shape_.context_tokens : 1;
  }
  double head_bytes() const;  // of one K or V

  Backend& backend_;
  const Shape shape_;
  BenchMemory memory_;
  LayerStep step_;
  LayerCache cache_;  // of layer 0
  SelectProgram program_;
  SummaryTable summaries_;  // of layer 0
  // From a layer's layer blocks and summaries to the next one's.
  int64_t layer_stride_bytes_ = 0, summary_stride_bytes_ = 0;
  PickLists lists_, next_lists_;
  SlotTable slots_;  // as far as next ranks look at it
  // By layer: [layers, kv_heads, inputs, k_dim].
  View gate_q_, gate_k_;
  View frequencies_, rope_scale_;  // no rotation
  FixedTable fixed_;               // of layer 0
  int64_t words_stride_bytes_ = 0;
  int64_t fixed_stride_bytes_ = 0;
  View context_tokens_;  // i32 [requests]
  std::array<View, 2> outs_, lses_;
  View first_token_;   // i32 [requests]: as the row's step begins
  View from_nothing_;  // i32 [requests]: zeros
  View q_, out_;       // [layers or 1, rows, q_heads, head_dim], [rows, ...]
  TokenInputs inputs_;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_REQUESTS_H_
