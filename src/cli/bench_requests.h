// A batch of requests over some layers of one shape, for what verbs take on
// any device.
#ifndef WINNOW_CLI_BENCH_REQUESTS_H_
#define WINNOW_CLI_BENCH_REQUESTS_H_

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "cli/bench_memory.h"

namespace winnow {

// Owns the KV of requests of equal length, random numbers in pages in random
// order, and the summaries that a selector keeps of it, of some layers; and a
// step's rows: the last token of each request as a generated row, or each
// request whole as prompt rows. Verbs are enqueued on its queue, and nothing is
// waited for.
class BenchRequests {
 public:
  // Which strips of the pool lie next to each other.
  enum class PoolOrder { kLayerMajor, kExtentMajor };
  // Where summaries lie: in segments of many pages (what the engine has), one
  // page after the other in any order, or behind the page's own K and V. The
  // last two need a row a page, and no second level.
  enum class SummaryPlace { kSegments, kPages, kBesideKv };
  struct Shape {
    int num_q_heads = 0;
    int num_kv_heads = 0;
    int head_dim = 0;
    Dtype dtype = Dtype::kBFloat16;  // of KV, q and out
    int batch = 1;
    int64_t context_tokens = 0;
    int num_layers = 1;
    bool prompt_rows = false;
    std::string select = {};  // SPEC; empty: nothing is chosen
    PoolOrder pool_order = PoolOrder::kLayerMajor;
    SummaryPlace summary_place = SummaryPlace::kSegments;
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
  void ReadPicks(int layer);
  void ReadEverything(int layer);

  // Of one layer's verb, what must be moved at least: q, k and v that come,
  // what becomes of them; keys that are summarised; summaries; K and V.
  double append_bytes() const;
  double summarized_bytes() const;
  double summary_bytes() const;
  double kv_bytes() const;
  // q k^T and p v that causality leaves, of a layer.
  double read_flops() const;
  // K and V that the lists of the last Select name; waits for it.
  Result<double> PickedBytes();

 private:
  BenchRequests(Backend& backend, const Shape& shape)
      : backend_(backend), shape_(shape), memory_(backend) {}
  Status TakeKv();
  Status TakeRows();
  Status MakeProgram();
  Status TakeSummaries();
  int64_t strip_bytes() const;
  Status TakeLists();
  Status SummarizeAll();
  View QueryOf(int layer) const;
  ReadArgs ArgsOf(int layer, const ReadSource& source) const;
  int64_t rows_a_request() const {
    return shape_.prompt_rows ? shape_.context_tokens : 1;
  }
  double head_bytes() const;  // of one K or V

  Backend& backend_;
  const Shape shape_;
  BenchMemory memory_;
  LayerStep step_;
  LayerCache cache_;  // of layer 0
  SelectProgram program_;
  SummaryTable summaries_;  // of layer 0
  // From a layer's strips and summaries to the next one's.
  int64_t layer_stride_bytes_ = 0, summary_stride_bytes_ = 0;
  PickLists lists_;
  View first_token_;   // i32 [requests]: as the row's step begins
  View from_nothing_;  // i32 [requests]: zeros
  View q_, out_;       // [layers or 1, rows, q_heads, head_dim], [rows, ...]
  TokenInputs inputs_;
};

}  // namespace winnow

#endif  // WINNOW_CLI_BENCH_REQUESTS_H_
