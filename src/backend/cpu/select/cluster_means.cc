#include "backend/cpu/select/cluster_means.h"

#include "backend/cpu/isa/float_types.h"
#include "backend/cpu/select/key_run.h"

namespace winnow {
namespace {

// `row` = the mean over a cluster's tokens of vectors of `dim` numbers;
// At(token) is where one stands.
template <typename Row, typename At>
void WriteMean(std::span<const uint16_t> tokens, int dim, const At& at,
               Row* row) {
  Channels sum;
  std::fill_n(sum.begin(), dim, 0.0f);
  for (const uint16_t token : tokens) {
    const auto* x = at(token);
    for (int c = 0; c < dim; ++c) {
      sum[static_cast<size_t>(c)] += static_cast<float>(x[c]);
    }
  }
  const auto count = static_cast<float>(std::max<size_t>(tokens.size(), 1));
  for (int c = 0; c < dim; ++c) {
    row[c] = Row(sum[static_cast<size_t>(c)] / count);
  }
}

template <typename Kv, typename Row>
void WriteRows(const ClusterTask& task) {
  const HeadBlockFormat& format = task.cache.format;
  const ClusterSegment segment = ClusterSegmentOf(
      task.table, task.program.rows, task.request, task.head, task.segment);
  const auto slice = [&](int64_t token) {
    return task.cache.Slice(
        StepRows::KvBlock(task.cache, task.request, token / kPageTokens),
        task.head);
  };
  const auto key = [&](int64_t member) {
    const int64_t token = segment.first_token + member;
    return reinterpret_cast<const Kv*>(slice(token)) +
           token % kPageTokens * format.k_dim;
  };
  const auto value = [&](int64_t member) {
    const int64_t token = segment.first_token + member;
    return format.v_in_k ? key(member)
                         : reinterpret_cast<const Kv*>(slice(token) +
                                                       format.v_offset_bytes) +
                               token % kPageTokens * format.v_dim;
  };
  for (int i = 0; i < segment.num_clusters; ++i) {
    const auto tokens = segment.TokensOf(i);
    const int64_t row = segment.first_row + i;
    WriteMean(tokens, format.k_dim, key,
              reinterpret_cast<Row*>(
                  task.table.Row(task.request, task.head, 0, row)));
    if (task.program.estimate.value == 0) continue;
    const int64_t value_bytes =
        format.v_dim * static_cast<int64_t>(sizeof(Row));
    WriteMean(tokens, format.v_dim, value,
              reinterpret_cast<Row*>(ClusterValue(
                  task.table, task.request, task.head, row, value_bytes)));
  }
}

}  // namespace

void WriteClusterMeans(const ClusterTask& task) {
  WithFloatType(task.cache.format.k, [&](auto kv) {
    WithFloatType(task.program.rows.dtype, [&](auto row) {
      WriteRows<decltype(kv), decltype(row)>(task);
    });
  });
}

}  // namespace winnow
