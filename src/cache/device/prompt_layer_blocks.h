// PromptLayerBlocks: one layer's KV and the residual stream of prompts that are
// read layer by layer.
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
  int64_t row_bytes = 0;        // a token's activations between two layers
};

// Options of the table that leads to a pool's layer blocks.
DevicePageTableOptions TableOf(const LayerBlockPoolOptions& pool,
                               const PromptLayerBlocksOptions& options);

// Where one prompt lies. Its first pages lie in layer blocks of `lent`, each of
// which serves one layer after another (kv/layer_capacity.h). The layers
// already read lie on the host. The last pages lie in KV blocks of their own.
// Cached pages lie on the host in all layers before the prompt passes the
// first.
struct PromptPlaces {
  std::span<const KvBlockId> hosts;  // by page
  std::span<const KvBlockId> whole;  // by page behind these
  std::span<const KvBlockId> lent;
};

// Owns the table of layer blocks on the device; the pools own the bytes. Layer
// blocks of all KV blocks and layers form one array, and an entry of the page
// table is a layer block's number. Hence ops that get layers() find such a
// prompt's pages as they find others. All edits and copies go to one queue, so
// a layer leaves before the next one is written. Used by the engine's thread
// alone; nothing is allocated after Create.
class PromptLayerBlocks {
 public:
  // REQUIRES: sizes are positive; all arguments outlive the result. Fails with
  // kResourceExhausted if memory does not suffice.
  static Result<std::unique_ptr<PromptLayerBlocks>> Create(
      Backend& backend, const LayerBlockPool& device, const HostPool& host,
      const PromptLayerBlocksOptions& options);

  // The same for every layer of the model: the table names the layer.
  std::span<const LayerCache> layers() const { return layers_; }

  // Makes row i lead to the pages of prompts[i] in `layer`. REQUIRES: as
  // DevicePageTable::Write.
  void WriteTables(Queue& queue, int layer,
                   std::span<const PromptPlaces> prompts);
  // Copies pages to the host, as `layer` of their KV blocks. These are the
  // pages in layer blocks that end among tokens [first, end).
  void CopyToHost(Queue& queue, const PromptPlaces& prompt, int layer,
                  int64_t first, int64_t end) const;
  // Copies the first `num_pages`, which are cached, from `layer` of their KV
  // blocks on the host to the layer blocks.
  void CopyFromHost(Queue& queue, const PromptPlaces& prompt, int layer,
                    int64_t num_pages) const;
  // Copies activations f32 [rows, hidden], of the tokens from `first` on, to
  // the layer blocks behind the pages, and back.
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
  // u8 [layer_block_bytes]: page `page` in its layer block; and in `layer` of
  // its KV block on the host.
  View Near(const PromptPlaces& prompt, int64_t page) const;
  View Far(const PromptPlaces& prompt, int64_t page, int layer) const;
  // The ranges of memory, in order, that hold the activations.
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
