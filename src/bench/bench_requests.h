// BenchRequests: a batch of requests over some layers of one shape, for timing
// ops on any device.
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

// Owns the KV of requests of equal length in some layers: random numbers, with
// pages in random order. Owns a selector's data for it: summaries, clusters,
// random gates, and choices made once at the row before the step. Owns a step's
// rows: the last token of each request as a decode row, or each whole request
// as prefill rows. Enqueues ops on its queue and waits for nothing.
class BenchRequests {
 public:
  // The order of layer blocks in the pool.
  enum class PoolOrder { kLayerMajor, kKvBlockMajor };
  // Where values lie: behind their page's keys (as in the engine), or behind
  // all keys of the layer. The latter requires a layer-major pool and summaries
  // apart.
  enum class ValuePlace { kBehindKeys, kApart };
  // Where summaries lie: in segments of many pages (as in the engine), page by
  // page in any order, or behind the page's K and V. The last two require one
  // row a page, and no second level.
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
    std::string select = {};  // SPEC; empty: no selector
    PoolOrder pool_order = PoolOrder::kLayerMajor;
    ValuePlace value_place = ValuePlace::kBehindKeys;
    SummaryPlace summary_place = SummaryPlace::kSegments;
    // Select also gives next ranks, up to this multiple of the budget; 0: none.
    double next_times = 0;
  };
  // KV bytes of all requests in one layer, without summaries.
  static int64_t LayerBytes(const Shape& shape);
  // REQUIRES: backend outlives this; its device supports the selector.
  static Result<std::unique_ptr<BenchRequests>> Create(Backend& backend,
                                                       const Shape& shape);

  Queue& queue() const { return memory_.queue(); }
  const Shape& shape() const { return shape_; }
  LayerCache CacheOf(int layer) const;
  LayerSelector SelectorOf(int layer) const;

  void Append(int layer);
  // Completes the summaries of the rows' last token. REQUIRES of these: a
  // selector.
  void Summarize(int layer);
  void Select(int layer);
  // Makes all summaries from the first token on, with fixed choices at the
  // context's end; and all clusters.
  void SummarizeAll(int layer);
  void ClusterKeys(int layer);
  // ReadEstimates attends the estimates of Select. MergeStates merges two
  // states of that size. REQUIRES: the selector estimates.
  void ReadEstimates(int layer);
  void MergeStates();
  void ReadPicks(int layer);
  void ReadEverything(int layer);

  // Minimal bytes moved by one layer's op. Append: q, k and v in and out;
  // Summarize: the summarised keys; Select: summaries.
  double append_bytes() const;
  double summarized_bytes() const;
  double summary_bytes() const;
  // Of a gate's query: the weights, read once, and their products.
  double gate_query_bytes() const;
  double gate_query_flops() const;
  double select_flops() const;  // gates' queries and scores
  // Of SummarizeAll: keys, read once, and its output.
  double all_summaries_bytes() const;
  double all_summaries_flops() const;
  double index_bytes() const;  // keys and values, read once, and the output
  double index_flops() const;
  double combine_bytes() const;
  double kv_bytes() const;
  // q k^T and p v under causality, in one layer.
  double read_flops() const;
  // Bytes of K and V in the lists of the last Select; waits for it.
  Result<double> PickedBytes();
  // Bytes of the clusters' data that the estimates read.
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
  // Summary rows of all requests and KV heads in a layer.
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
  // Distances between one layer's layer blocks or summaries and the next one's.
  int64_t layer_stride_bytes_ = 0, summary_stride_bytes_ = 0;
  PickLists lists_, next_lists_;
  SlotTable slots_;  // the fields that next ranks use
  // By layer: [layers, kv_heads, inputs, k_dim].
  View gate_q_, gate_k_;
  View frequencies_, rope_scale_;  // no rotation
  FixedTable fixed_;               // of layer 0
  int64_t words_stride_bytes_ = 0;
  int64_t fixed_stride_bytes_ = 0;
  View context_tokens_;  // i32 [requests]
  std::array<View, 2> outs_, lses_;
  View first_token_;   // i32 [requests]: the first token of the row's step
  View from_nothing_;  // i32 [requests]: zeros
  View q_, out_;       // [layers or 1, rows, q_heads, head_dim], [rows, ...]
  TokenInputs inputs_;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_REQUESTS_H_
