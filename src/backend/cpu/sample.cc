#include "backend/cpu/sample.h"

#include "backend/cpu/sample_row.h"

namespace winnow {
namespace {

// The entries of a row, of lists that stand one after another.
template <typename Entry>
std::span<const Entry> EntriesOf(const View& begin, const Entry* entries,
                                 int64_t row) {
  if (begin.empty()) return {};
  const int32_t* first = begin.As<int32_t>() + row;
  CHECK(first[0] >= 0 && first[1] >= first[0], "row={} begin={} end={}", row,
        first[0], first[1]);
  return {entries + first[0], entries + first[1]};
}

template <typename T>
std::span<T> RowOf(const View& view, int64_t row) {
  if (view.empty()) return {};
  return {view.Row<T>(row), static_cast<size_t>(view.dim(1))};
}

void CheckShapes(const SampleArgs& args) {
  const int64_t num_rows = args.logits.dim(0);
  const auto lists = [num_rows](const View& begin) {
    return begin.empty() || begin.dim(0) == num_rows + 1;
  };
  CHECK(lists(args.seen_begin) && lists(args.bias_begin),
        "logits {} seen_begin {} bias_begin {}", ToString(args.logits),
        ToString(args.seen_begin), ToString(args.bias_begin));
  CHECK(args.mask.empty() || (args.mask.dim(0) == num_rows &&
                              args.mask.dim(1) * 32 >= args.logits.dim(1)),
        "logits {} mask {}", ToString(args.logits), ToString(args.mask));
  CHECK(args.token_ids.dim(0) == num_rows && args.logprobs.dim(0) == num_rows,
        "logits {} token_ids {} logprobs {}", ToString(args.logits),
        ToString(args.token_ids), ToString(args.logprobs));
  CHECK(args.top_ids.empty() == args.top_logprobs.empty(),
        "top_ids {} top_logprobs {}", ToString(args.top_ids),
        ToString(args.top_logprobs));
  CHECK(args.top_ids.empty() || (args.top_ids.dim(0) == num_rows &&
                                 args.top_ids.shape == args.top_logprobs.shape),
        "logits {} top_ids {} top_logprobs {}", ToString(args.logits),
        ToString(args.top_ids), ToString(args.top_logprobs));
}

void SampleOneRow(const SampleArgs& args, int64_t row,
                  std::span<float> originals) {
  const SampledToken sampled = SampleRow(
      {.logits = RowOf<float>(args.logits, row),
       .row = args.rows[row],
       .seen = EntriesOf(args.seen_begin, args.seen, row),
       .bias = EntriesOf(args.bias_begin, args.bias, row),
       .mask = args.mask.empty() ? nullptr : args.mask.Row<uint32_t>(row),
       .top_ids = RowOf<int32_t>(args.top_ids, row),
       .top_logprobs = RowOf<float>(args.top_logprobs, row),
       .originals = originals});
  *args.token_ids.Row<int32_t>(row) = sampled.token_id;
  *args.logprobs.Row<float>(row) = sampled.logprob;
}

}  // namespace

void SampleScalar(const SampleArgs& args, SampleWorkspace& workspace,
                  ThreadPool& pool) {
  if (args.logits.dim(0) == 0) return;
  CheckShapes(args);
  pool.ParallelFor(args.logits.dim(0), [&](int64_t row, int worker) {
    SampleOneRow(args, row, workspace.OriginalsOf(worker));
  });
}

}  // namespace winnow
