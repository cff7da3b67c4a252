#include "cache/device/device_cache.h"

#include <utility>

namespace winnow {

DevicePageTableOptions TableOf(const DeviceCacheOptions& options) {
  return {.max_requests = options.max_requests,
          .num_entries = options.num_table_pages,
          .num_kv_blocks = options.num_kv_blocks};
}

Result<std::unique_ptr<DeviceCache>> DeviceCache::Create(
    Backend& backend, const DeviceCacheOptions& options) {
  const LayerBlockPoolOptions pool_options = {
      .format = options.format,
      .num_layers = options.num_layers,
      .num_kv_heads = options.num_kv_heads,
      .num_kv_blocks = options.num_kv_blocks,
      .layout = options.layout};
  ASSIGN_OR_RETURN(LayerBlockPool pool,
                   LayerBlockPool::Create(backend, pool_options));
  ASSIGN_OR_RETURN(DevicePageTable table,
                   DevicePageTable::Create(backend, TableOf(options)));
  return std::unique_ptr<DeviceCache>(
      new DeviceCache(backend, options, std::move(pool), std::move(table)));
}

DeviceCache::DeviceCache(Backend& backend, const DeviceCacheOptions& options,
                         LayerBlockPool pool, DevicePageTable table)
    : backend_(backend), pool_(std::move(pool)), table_(std::move(table)) {
  for (int layer = 0; layer < options.num_layers; ++layer) {
    LayerCache& cache = layers_.emplace_back();
    cache.format = options.format;
    cache.num_kv_heads = options.num_kv_heads;
    cache.layer_blocks = pool_.layer_blocks(layer);
    cache.kv_block_stride_bytes = pool_.kv_block_stride_bytes();
    cache.page_table = table_.rows();
    cache.max_pages = options.max_pages_per_request;
  }
  copies_.reserve(static_cast<size_t>(options.max_requests));
}

int64_t DeviceCache::WriteTables(
    Queue& queue, std::span<const std::span<const KvBlockId>> pages) {
  return table_.Write(queue, pages);
}

void DeviceCache::Apply(Queue& queue, std::span<const KvBlockCopy> copies) {
  const int64_t max_requests = table_.rows().first.dim(0);
  CHECK(std::ssize(copies) <= max_requests, "copies={} max_requests={}",
        copies.size(), max_requests);
  copies_.clear();
  for (const KvBlockCopy& copy : copies) {
    const int64_t num_kv_blocks = pool_.options().num_kv_blocks;
    CHECK(copy.from.value() < num_kv_blocks && copy.to.value() < num_kv_blocks,
          "from={} to={} num_kv_blocks={}", copy.from.value(), copy.to.value(),
          num_kv_blocks);
    copies_.push_back(
        {.from = copy.from, .to = copy.to, .num_tokens = copy.num_tokens});
  }
  if (!copies_.empty()) {
    backend_.CopyPagePrefixes(queue, {.layers = layers_, .copies = copies_});
  }
}

}  // namespace winnow
