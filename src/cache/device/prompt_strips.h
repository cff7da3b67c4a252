// PromptStrips: one layer's KV, and the residual stream, of prompts that are
// read layer by layer.
#ifndef WINNOW_CACHE_DEVICE_PROMPT_STRIPS_H_
#define WINNOW_CACHE_DEVICE_PROMPT_STRIPS_H_

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "cache/device/device_page_table.h"
#include "cache/host/host_pool.h"
#include "cache/host/strip_pool.h"

namespace winnow {

struct PromptStripsOptions {
  int max_requests = 0;  // in one step
  int max_pages_per_request = 0;
  int64_t num_table_pages = 0;  // of all requests of a step
  int64_t row_bytes = 0;        // of a token between two layers
};

// Of the table that leads to a pool's strips.
DevicePageTableOptions TableOf(const StripPoolOptions& pool,
                               const PromptStripsOptions& options);

// Where one prompt lies: its first pages in strips of `lent`, a strip each that
// serves one layer after the other (kv/layer_room.h), and, of the layers that
// it has come through, on the host; those behind in extents of their own. What
// is cached lies on the host in all layers, before the prompt comes through the
// first.
struct PromptPlaces {
  std::span<const ExtentId> hosts;  // by page
  std::span<const ExtentId> whole;  // by page behind these
  std::span<const ExtentId> lent;
};

// Owns the table of strips on the device; the bytes are the pools'. Strips of
// any extent and layer are one array, so verbs that are handed layers() find
// such a prompt's pages as they find others: an entry of the page table is a
// strip's number. All its edits and copies go to one queue, in whose order a
// layer leaves before the next one is written. Used by the engine's thread
// alone; nothing is allocated after Create.
class PromptStrips {
 public:
  // REQUIRES: sizes are positive; all outlive the strips. Fails where memory
  // does not suffice.
  static Result<std::unique_ptr<PromptStrips>> Create(
      Backend& backend, const StripPool& device, const HostPool& host,
      const PromptStripsOptions& options);

  // The same one for every layer of the model: the table says which it is.
  std::span<const LayerCache> layers() const { return layers_; }

  // Row i says where prompts[i] has its pages of `layer`. REQUIRES: as
  // DevicePageTable::Write.
  void WriteTables(Queue& queue, int layer,
                   std::span<const PromptPlaces> prompts);
  // Of the pages that lie in strips, those that end among tokens [first, end)
  // go to the host, as `layer` of their extents.
  void CopyToHost(Queue& queue, const PromptPlaces& prompt, int layer,
                  int64_t first, int64_t end) const;
  // The first `num_pages`, which are cached, come to the strips, as `layer` of
  // their extents has them.
  void CopyFromHost(Queue& queue, const PromptPlaces& prompt, int layer,
                    int64_t num_pages) const;
  // Rows f32 [rows, hidden] of the tokens from `first` on, to the strips behind
  // the pages and back.
  void StoreRows(Queue& queue, const PromptPlaces& prompt, int64_t first,
                 const View& rows) const;
  void LoadRows(Queue& queue, const PromptPlaces& prompt, int64_t first,
                const View& rows) const;

 private:
  PromptStrips(Backend& backend, const StripPool& device, const HostPool& host,
               const PromptStripsOptions& options, DevicePageTable table);
  uint32_t StripNumber(const PromptPlaces& prompt, int64_t strip) const;
  // u8 [strip_bytes]: page `page` in its strip, and as `layer` of its extent.
  View Near(const PromptPlaces& prompt, int64_t page) const;
  View Far(const PromptPlaces& prompt, int64_t page, int layer) const;
  // Pieces of memory, one after another, that hold the rows.
  std::vector<View> PiecesOf(const PromptPlaces& prompt, int64_t first,
                             int64_t num_rows) const;

  Backend& backend_;
  const StripPool& device_;
  const HostPool& host_;
  const PromptStripsOptions options_;
  DevicePageTable table_;
  std::vector<LayerCache> layers_;  // [num_layers]
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DEVICE_PROMPT_STRIPS_H_
