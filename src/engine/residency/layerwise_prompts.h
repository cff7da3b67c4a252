// LayerwisePrompts: requests whose KV does not fit the device's pool, and which
// are therefore read layer by layer.
#ifndef WINNOW_ENGINE_RESIDENCY_LAYERWISE_PROMPTS_H_
#define WINNOW_ENGINE_RESIDENCY_LAYERWISE_PROMPTS_H_

#include <memory>
#include <span>
#include <string>

#include "cache/device/prompt_layer_blocks.h"
#include "engine/request/sequence.h"
#include "engine/residency/request_slots.h"
#include "engine/schedule/step_plan.h"
#include "engine/selection/selector_set.h"
#include "kv/layer_capacity.h"

namespace winnow {

// Lends such a request what it needs while it is read, and makes it one that
// has slots (RequestSlots) when it has come through the last layer. Of its
// prompt one layer's KV and the residual stream of all rows are near, the pages
// that may leave lie on the host as far as they have come. Used by the engine's
// thread alone; no pool grows after Create.
//
// From Open to End the request has a loan of kv's, and no pages; from End on it
// is one of those whose pages are not all whole, which never come back.
class LayerwisePrompts {
 public:
  struct Options {
    int max_requests = 0;  // in one step
    int max_pages_per_request = 0;
    int hidden_size = 0;
  };
  // REQUIRES: memory, selectors and slots outlive this. Fails where memory does
  // not suffice.
  static Result<std::unique_ptr<LayerwisePrompts>> Create(
      const RequestSlots::Memory& memory, const SelectorSet& selectors,
      RequestSlots& slots, const Options& options);
  // Takes no request. REQUIRES: the slots serve none; all outlive this.
  static std::unique_ptr<LayerwisePrompts> None(
      const RequestSlots::Memory& memory, const SelectorSet& selectors,
      RequestSlots& slots);

  // Whether any request may be read so.
  bool is_there() const { return layer_blocks_ != nullptr; }
  // Whether a request is read so: its KV is more than the pool, and it may have
  // slots. REQUIRES: its fields are in range.
  bool Takes(const Request& request) const;
  // Whether both pools have room for it when it is alone; the error names which
  // has not, and what it would need. REQUIRES: Takes.
  Status Check(const Request& request) const;
  // Of a request that neither pool has room for as it is: what would have it
  // served, to follow the error; "" where nothing that is known would.
  std::string WayOut(const Request& request) const;

  // Of one that Takes: what it takes on the device, and on the host while it is
  // read.
  LayerCapacity RoomOf(const Request& request) const;
  int64_t NumFarPages(const Request& request) const;

  // It begins with the pages of `hit`. Returns how many of them are copied to
  // the host. REQUIRES: both pools have room; the hit has NumFarPages at most.
  int64_t Open(const Sequence& sequence, const PrefixHit& hit);
  // It has been read: its pages are its own, and it has slots. REQUIRES: its
  // last step has landed.
  void End(const Sequence& sequence);

  // Request i of the next step is sequences[i], all in `layer`.
  void WriteTables(Queue& queue, int layer,
                   std::span<const Sequence* const> sequences);
  std::span<const LayerCache> layers() const { return layer_blocks_->layers(); }
  // The item's rows f32 [rows, hidden] come from the layer before, and go to
  // the one behind.
  void LoadRows(Queue& queue, const Sequence& sequence, const StepItem& item,
                const View& rows) const;
  void StoreRows(Queue& queue, const Sequence& sequence, const StepItem& item,
                 const View& rows) const;
  // What is cached comes near before the first item of a layer.
  void CopyFromHost(Queue& queue, const Sequence& sequence,
                    const StepItem& item) const;
  // The pages that the item has filled are copied to the host.
  void CopyToHost(Queue& queue, const Sequence& sequence,
                  const StepItem& item) const;
  // Bytes that these two copy for an item, before it and behind it.
  int64_t BytesFromHost(const Sequence& sequence, const StepItem& item) const;
  int64_t BytesToHost(const Sequence& sequence, const StepItem& item) const;

 private:
  LayerwisePrompts(const RequestSlots::Memory& memory,
                   const SelectorSet& selectors, RequestSlots& slots,
                   const Options& options)
      : memory_(memory),
        selectors_(selectors),
        slots_(slots),
        options_(options) {}
  // What Takes asks for, whatever the budget of slots.
  bool MayTake(const Request& request) const;
  int64_t RowBytes() const;
  PromptPlaces PlacesOf(const Sequence& sequence) const;

  const RequestSlots::Memory memory_;
  const SelectorSet& selectors_;
  RequestSlots& slots_;
  const Options options_;
  std::unique_ptr<PromptLayerBlocks> layer_blocks_;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_RESIDENCY_LAYERWISE_PROMPTS_H_
