#include "backend/cpu/sample/sample.h"

#include "backend/cpu/sample/sample_row.h"
#include "backend/preconditions.h"

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
  CheckSample(args);
  pool.ParallelFor(args.logits.dim(0), [&](int64_t row, int worker) {
    SampleOneRow(args, row, workspace.OriginalsOf(worker));
  });
}

}  // namespace winnow
