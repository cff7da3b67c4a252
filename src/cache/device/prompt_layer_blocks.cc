#include "cache/device/prompt_layer_blocks.h"

#include <algorithm>
#include <utility>

#include "kv/layer_capacity.h"

namespace winnow {

DevicePageTableOptions TableOf(const LayerBlockPoolOptions& pool,
                               const PromptLayerBlocksOptions& options) {
  return {.max_requests = options.max_requests,
          .num_entries = options.num_table_pages,
          .num_kv_blocks = pool.num_kv_blocks * pool.num_layers};
}

Result<std::unique_ptr<PromptLayerBlocks>> PromptLayerBlocks::Create(
    Backend& backend, const LayerBlockPool& device, const HostPool& host,
    const PromptLayerBlocksOptions& options) {
  CHECK(options.row_bytes > 0, "row_bytes={}", options.row_bytes);
  const LayerBlockPoolOptions& pool = device.options();
  ASSIGN_OR_RETURN(DevicePageTable table,
                   DevicePageTable::Create(backend, TableOf(pool, options)));
  return std::unique_ptr<PromptLayerBlocks>(
      new PromptLayerBlocks(backend, device, host, options, std::move(table)));
}

PromptLayerBlocks::PromptLayerBlocks(Backend& backend,
                                     const LayerBlockPool& device,
                                     const HostPool& host,
                                     const PromptLayerBlocksOptions& options,
                                     DevicePageTable table)
    : backend_(backend),
      device_(device),
      host_(host),
      options_(options),
      table_(std::move(table)) {
  const LayerBlockPoolOptions& pool = device.options();
  const LayerCache cache = {.format = pool.format,
                            .num_kv_heads = pool.num_kv_heads,
                            .layer_blocks = device.layer_blocks(0),
                            .kv_block_stride_bytes = device.layer_block_bytes(),
                            .page_table = table_.rows(),
                            .max_pages = options.max_pages_per_request};
  layers_.assign(static_cast<size_t>(pool.num_layers), cache);
}

uint32_t PromptLayerBlocks::LayerBlockNumber(const PromptPlaces& prompt,
                                             int64_t layer_block) const {
  const LayerBlockPlace place =
      PlaceOfLayerBlock(layer_block, std::ssize(prompt.lent));
  CHECK(place.layer < device_.options().num_layers,
        "layer block={} of {} KV blocks", layer_block, prompt.lent.size());
  return device_.LayerBlockNumber(
      place.layer, prompt.lent[static_cast<size_t>(place.kv_block)]);
}

void PromptLayerBlocks::WriteTables(Queue& queue, int layer,
                                    std::span<const PromptPlaces> prompts) {
  std::vector<std::vector<KvBlockId>> layer_blocks;
  for (const PromptPlaces& prompt : prompts) {
    std::vector<KvBlockId>& row = layer_blocks.emplace_back();
    for (int64_t page = 0; page < std::ssize(prompt.hosts); ++page) {
      row.emplace_back(LayerBlockNumber(prompt, page));
    }
    for (const KvBlockId kv_block : prompt.whole) {
      row.emplace_back(device_.LayerBlockNumber(layer, kv_block));
    }
  }
  const std::vector<std::span<const KvBlockId>> rows(layer_blocks.begin(),
                                                     layer_blocks.end());
  table_.Write(queue, rows);
}

View PromptLayerBlocks::Near(const PromptPlaces& prompt, int64_t page) const {
  const int64_t layer_block_bytes = device_.layer_block_bytes();
  return MakeView(device_.layer_blocks(0) +
                      LayerBlockNumber(prompt, page) * layer_block_bytes,
                  Dtype::kUInt8, {layer_block_bytes});
}

View PromptLayerBlocks::Far(const PromptPlaces& prompt, int64_t page,
                            int layer) const {
  const int64_t layer_block_bytes = device_.layer_block_bytes();
  return host_.KvBlock(prompt.hosts[static_cast<size_t>(page)])
      .Slice(layer * layer_block_bytes, layer_block_bytes);
}

void PromptLayerBlocks::CopyToHost(Queue& queue, const PromptPlaces& prompt,
                                   int layer, int64_t first,
                                   int64_t end) const {
  const int64_t end_page =
      std::min<int64_t>(end / kPageTokens, std::ssize(prompt.hosts));
  for (int64_t page = first / kPageTokens; page < end_page; ++page) {
    backend_.Copy(queue, Near(prompt, page), Far(prompt, page, layer));
  }
}

void PromptLayerBlocks::CopyFromHost(Queue& queue, const PromptPlaces& prompt,
                                     int layer, int64_t num_pages) const {
  for (int64_t page = 0; page < num_pages; ++page) {
    backend_.Copy(queue, Far(prompt, page, layer), Near(prompt, page));
  }
}

std::vector<View> PromptLayerBlocks::PiecesOf(const PromptPlaces& prompt,
                                              int64_t first,
                                              int64_t num_rows) const {
  const int64_t layer_block_bytes = device_.layer_block_bytes();
  std::vector<View> pieces;
  const int64_t end = (first + num_rows) * options_.row_bytes;
  int64_t next = 0;
  for (int64_t at = first * options_.row_bytes; at < end; at = next) {
    const int64_t layer_block = at / layer_block_bytes;
    next = std::min((layer_block + 1) * layer_block_bytes, end);
    std::byte* data =
        device_.layer_blocks(0) +
        LayerBlockNumber(prompt, std::ssize(prompt.hosts) + layer_block) *
            layer_block_bytes +
        at % layer_block_bytes;
    const bool goes_on =
        !pieces.empty() && pieces.back().data + pieces.back().dim(0) == data;
    if (goes_on) {
      pieces.back().shape[0] += next - at;
    } else {
      pieces.push_back(MakeView(data, Dtype::kUInt8, {next - at}));
    }
  }
  return pieces;
}

void PromptLayerBlocks::StoreRows(Queue& queue, const PromptPlaces& prompt,
                                  int64_t first, const View& rows) const {
  std::byte* data = rows.data;
  for (const View& piece : PiecesOf(prompt, first, rows.dim(0))) {
    backend_.Copy(queue, MakeView(data, Dtype::kUInt8, {piece.dim(0)}), piece);
    data += piece.dim(0);
  }
}

void PromptLayerBlocks::LoadRows(Queue& queue, const PromptPlaces& prompt,
                                 int64_t first, const View& rows) const {
  std::byte* data = rows.data;
  for (const View& piece : PiecesOf(prompt, first, rows.dim(0))) {
    backend_.Copy(queue, piece, MakeView(data, Dtype::kUInt8, {piece.dim(0)}));
    data += piece.dim(0);
  }
}

}  // namespace winnow
