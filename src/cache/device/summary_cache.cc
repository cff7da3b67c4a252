#include "cache/device/summary_cache.h"

#include <utility>

#include "base/size_text.h"

namespace winnow {

namespace {

DevicePageTableOptions TableOf(const SummaryCacheOptions& options) {
  return {.max_requests = options.max_requests,
          .num_entries = options.num_table_entries,
          .num_kv_blocks = options.num_segments};
}

int64_t SegmentBytes(const SummaryCacheOptions& options) {
  return options.layout.head_bytes * options.num_layers * options.num_kv_heads;
}

}  // namespace

SummaryCacheBytes BytesOf(const SummaryCacheOptions& options) {
  return {.table =
              static_cast<int64_t>(DevicePageTable::NumBytes(TableOf(options))),
          .rows = SegmentBytes(options) * options.num_segments};
}

Result<std::unique_ptr<SummaryCache>> SummaryCache::Create(
    Backend& backend, const SummaryCacheOptions& options) {
  CHECK(options.layout.head_bytes > 0 && options.num_layers > 0 &&
            options.num_kv_heads > 0 && options.num_segments > 0,
        "head_bytes={} num_layers={} num_kv_heads={} num_segments={}",
        options.layout.head_bytes, options.num_layers, options.num_kv_heads,
        options.num_segments);
  ASSIGN_OR_RETURN(
      Buffer pool,
      backend.Allocate(
          Tier::kDevice, static_cast<size_t>(BytesOf(options).rows),
          fmt::format("summaries: {} segments of {} tokens, {}",
                      options.num_segments, options.layout.segment_tokens,
                      FormatBytes(SegmentBytes(options)))));
  ASSIGN_OR_RETURN(DevicePageTable table,
                   DevicePageTable::Create(backend, TableOf(options)));
  return std::unique_ptr<SummaryCache>(
      new SummaryCache(backend, options, std::move(pool), std::move(table)));
}

SummaryCache::SummaryCache(Backend& backend, const SummaryCacheOptions& options,
                           Buffer pool, DevicePageTable table)
    : backend_(backend),
      segment_bytes_(SegmentBytes(options)),
      pool_(std::move(pool)),
      table_(std::move(table)) {
  const int64_t layer_bytes = options.layout.head_bytes * options.num_kv_heads;
  for (int layer = 0; layer < options.num_layers; ++layer) {
    layers_.push_back({.layout = options.layout,
                       .rows = pool_.data() + layer * layer_bytes,
                       .segment_stride_bytes = segment_bytes_,
                       .segments = table_.rows()});
  }
}

void SummaryCache::WriteTables(
    Queue& queue, std::span<const std::span<const KvBlockId>> segments) {
  table_.Write(queue, segments);
}

View SummaryCache::Segment(KvBlockId segment) const {
  return pool_.At(static_cast<size_t>(segment.value() * segment_bytes_),
                  Dtype::kUInt8, {segment_bytes_});
}

void SummaryCache::Apply(Queue& queue, std::span<const KvBlockCopy> copies) {
  for (const KvBlockCopy& copy : copies) {
    backend_.Copy(queue, Segment(copy.from), Segment(copy.to));
  }
}

}  // namespace winnow
