// PromptLayerBlocks: one layer's KV, and the residual stream, of prompts that
// are read layer by layer.
#ifndef WINNOW_CACHE_DEVICE_PROMPT_LAYER_BLOCKS_H_
#define WINNOW_CACHE_DEVICE_PROMPT_LAYER_BLOCKS_H_

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "cache/device/device_page_table.h"
#include "cache/host/host_pool.h"
#include "cache/host/layer_block_pool.h"

namespace winnow {

struct PromptLayerBlocksOptions {
  int max_requests = 0;  // in one step
  int max_pages_per_request = 0;
  int64_t num_table_pages = 0;  // of all requests of a step
  int64_t row_bytes = 0;        // of a token between two layers
};

// Of the table that leads to a pool's layer blocks.
DevicePageTableOptions TableOf(const LayerBlockPoolOptions& pool,
                               const PromptLayerBlocksOptions& options);

// Where one prompt lies: its first pages in layer blocks of `lent`, a layer
// block each that serves one layer after the other (kv/layer_capacity.h), and,
// of the layers that it has come through, on the host; those behind in KV
// blocks of their own. What is cached lies on the host in all layers, before
// the prompt comes through the first.
struct PromptPlaces {
  std::span<const KvBlockId> hosts;  // by page
  std::span<const KvBlockId> whole;  // by page behind these
  std::span<const KvBlockId> lent;
};

// Owns the table of layer blocks on the device; the bytes are the pools'. Layer
// blocks of any KV block and layer are one array, so ops that are handed
// layers() find such a prompt's pages as they find others: an entry of the page
// table is a layer block's number. All its edits and copies go to one queue, in
// whose order a layer leaves before the next one is written. Used by the
// engine's thread alone; nothing is allocated after Create.
class PromptLayerBlocks {
 public:
  // REQUIRES: sizes are positive; all outlive the layer blocks. Fails where
  // memory does not suffice.
  static Result<std::unique_ptr<PromptLayerBlocks>> Create(
      Backend& backend, const LayerBlockPool& device, const HostPool& host,
      const PromptLayerBlocksOptions& options);

  // The same one for every layer of the model: the table says which it is.
  std::span<const LayerCache> layers() const { return layers_; }

  // Row i says where prompts[i] has its pages of `layer`. REQUIRES: as
  // DevicePageTable::Write.
  void WriteTables(Queue& queue, int layer,
                   std::span<const PromptPlaces> prompts);
  // Of the pages that lie in layer blocks, those that end among tokens [first,
  // end) go to the host, as `layer` of their KV blocks.
  void CopyToHost(Queue& queue, const PromptPlaces& prompt, int layer,
                  int64_t first, int64_t end) const;
  // The first `num_pages`, which are cached, come to the layer blocks, as
  // `layer` of their KV blocks has them.
  void CopyFromHost(Queue& queue, const PromptPlaces& prompt, int layer,
                    int64_t num_pages) const;
  // Rows f32 [rows, hidden] of the tokens from `first` on, to the layer blocks
  // behind the pages and back.
  void StoreRows(Queue& queue, const PromptPlaces& prompt, int64_t first,
                 const View& rows) const;
  void LoadRows(Queue& queue, const PromptPlaces& prompt, int64_t first,
                const View& rows) const;

 private:
  PromptLayerBlocks(Backend& backend, const LayerBlockPool& device,
                    const HostPool& host,
                    const PromptLayerBlocksOptions& options,
                    DevicePageTable table);
  uint32_t LayerBlockNumber(const PromptPlaces& prompt,
                            int64_t layer_block) const;
  // u8 [layer_block_bytes]: page `page` in its layer block, and as `layer` of
  // its KV block.
  View Near(const PromptPlaces& prompt, int64_t page) const;
  View Far(const PromptPlaces& prompt, int64_t page, int layer) const;
  // Pieces of memory, one after another, that hold the rows.
  std::vector<View> PiecesOf(const PromptPlaces& prompt, int64_t first,
                             int64_t num_rows) const;

  Backend& backend_;
  const LayerBlockPool& device_;
  const HostPool& host_;
  const PromptLayerBlocksOptions options_;
  DevicePageTable table_;
  std::vector<LayerCache> layers_;  // [num_layers]
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DEVICE_PROMPT_LAYER_BLOCKS_H_
