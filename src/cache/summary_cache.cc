#include "cache/summary_cache.h"

#include <utility>

#include "base/size_text.h"

namespace winnow {

Result<std::unique_ptr<SummaryCache>> SummaryCache::Create(
    Backend& backend, const SummaryCacheOptions& options) {
  CHECK(options.layout.head_bytes > 0 && options.num_layers > 0 &&
            options.num_kv_heads > 0 && options.num_segments > 0,
        "head_bytes={} num_layers={} num_kv_heads={} num_segments={}",
        options.layout.head_bytes, options.num_layers, options.num_kv_heads,
        options.num_segments);
  const int64_t segment_bytes =
      options.layout.head_bytes * options.num_layers * options.num_kv_heads;
  const auto num_bytes =
      static_cast<size_t>(segment_bytes * options.num_segments);
  ASSIGN_OR_RETURN(
      Buffer pool,
      backend.Allocate(
          Tier::kDevice, num_bytes,
          fmt::format("summaries: {} segments of {} tokens, {}",
                      options.num_segments, options.layout.segment_tokens,
                      FormatBytes(segment_bytes))));
  ASSIGN_OR_RETURN(
      DevicePageTable table,
      DevicePageTable::Create(
          backend, {.max_requests = options.max_requests,
                    .num_entries = int64_t{options.max_requests} *
                                   options.max_segments_per_request,
                    .num_extents = options.num_segments,
                    .row_entries = options.max_segments_per_request}));
  return std::unique_ptr<SummaryCache>(
      new SummaryCache(backend, options, std::move(pool), std::move(table)));
}

SummaryCache::SummaryCache(Backend& backend, const SummaryCacheOptions& options,
                           Buffer pool, DevicePageTable table)
    : backend_(backend),
      segment_bytes_(options.layout.head_bytes * options.num_layers *
                     options.num_kv_heads),
      pool_(std::move(pool)),
      table_(std::move(table)) {
  const int64_t layer_bytes = options.layout.head_bytes * options.num_kv_heads;
  const View segments = table_.rows().entries.Reshape(
      {options.max_requests, options.max_segments_per_request});
  for (int layer = 0; layer < options.num_layers; ++layer) {
    layers_.push_back({.layout = options.layout,
                       .rows = pool_.data() + layer * layer_bytes,
                       .segment_stride_bytes = segment_bytes_,
                       .segments = segments});
  }
}

void SummaryCache::WriteTables(
    Queue& queue, std::span<const std::span<const ExtentId>> segments) {
  table_.Write(queue, segments);
}

View SummaryCache::Segment(ExtentId segment) const {
  return pool_.At(static_cast<size_t>(segment.value() * segment_bytes_),
                  Dtype::kUInt8, {segment_bytes_});
}

void SummaryCache::Apply(Queue& queue, std::span<const ExtentCopy> copies) {
  for (const ExtentCopy& copy : copies) {
    backend_.Copy(queue, Segment(copy.from), Segment(copy.to));
  }
}

}  // namespace winnow
