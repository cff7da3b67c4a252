// RequestSlots: running requests whose pages are not all whole, and the slots
// that they have instead.
#ifndef WINNOW_ENGINE_RESIDENCY_REQUEST_SLOTS_H_
#define WINNOW_ENGINE_RESIDENCY_REQUEST_SLOTS_H_

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cache/device/device_cache.h"
#include "cache/device/slot_tables.h"
#include "engine/request/sequence.h"
#include "engine/residency/slot_capacity.h"
#include "engine/selection/selector_set.h"
#include "kv/demotion.h"
#include "kv/near_places.h"
#include "kv/promotion.h"

namespace winnow {

// Copied before one step for requests whose pages come back, a page at least,
// so that none gets long by it (1.3 ms of an H200's link).
inline constexpr int64_t kPromotedStepBytes = int64_t{64} << 20;

struct RequestSlotsOptions {
  CacheBudget budget = kDefaultCacheBudget;
  int max_model_len = 0;
  int max_sequences = 0;  // that run at once
  int max_requests = 0;   // in one step
};

// Takes whole pages from requests that run and gives them slots, and the other
// way round; who, is kv's to decide (kv/demotion.h, kv/promotion.h), where
// bytes lie, cache's. Used by the engine's thread alone; no pool grows after
// Create. A request has slots from the first page that it gives up to Close, or
// until all its pages are whole again. All layer blocks of a KV block are one
// request's. Besides slots it holds the layer blocks of all pages that it has
// given up in the layers that it reads whole (NearLayersOf): they come there
// from the host before its next step, over the link once and not for every row.
//
// Pages can leave that the request has read to the end of its prompt, that it
// holds alone, and of which nothing is left to summarise, where its selector
// scores something else than the keys themselves.
class RequestSlots {
 public:
  using Sequences = std::span<const std::unique_ptr<Sequence>>;

  // Tokens a slot, for the requests of such selectors; none where no selector
  // may have pages that are not whole.
  static std::optional<int> SlotTokens(const SelectorSet& selectors);

  // Where requests lie: all outlive the slots.
  struct Memory {
    Backend& backend;
    const DeviceCache& device;  // in whose format slots are as SlotTokens says
    const HostPool& host;
    KvCache& kv;
  };
  // Fails where memory does not suffice. REQUIRES: SlotTokens of the selectors.
  static Result<std::unique_ptr<RequestSlots>> Create(
      const Memory& memory, const SelectorSet& selectors,
      const RequestSlotsOptions& options);
  // Slots for no request: MayServe none, MakeRoom makes none, and WriteTables
  // has nothing to write.
  static std::unique_ptr<RequestSlots> None(const Memory& memory,
                                            const SelectorSet& selectors);

  // Whether any request may have slots.
  bool is_there() const { return tables_ != nullptr; }
  // Whether requests of a selector may have pages that are not whole, and the
  // KV blocks that one's slots, and what it holds, would take with `num_far`
  // such pages.
  bool MayServe(int selector) const;
  int64_t NumSlotKvBlocks(const Request& request, int64_t num_far) const;
  // The greatest cache budget, in tokens, by which these would be at most
  // `num_kv_blocks`; none where one of 1 token takes more.
  std::optional<int64_t> BudgetWithin(const Request& request, int64_t num_far,
                                      int64_t num_kv_blocks) const;
  // Pages of `far` are not whole any more, and one that has no slots yet gets
  // them. REQUIRES: kv has so many free KV blocks.
  void Cover(const Sequence& sequence, const PageRange& far);

  // At least `num_wanted` more KV blocks of the device are free, or nothing has
  // changed: false.
  bool MakeRoom(Sequences sequences, int64_t num_wanted);
  // All give up what they can, as far as the host has room and anything comes
  // free by it.
  void DemoteAll(Sequences sequences);
  // One does, if no more is taken by it than comes free. False where it cannot.
  bool Demote(Sequence& sequence);
  // Of one that has slots: what it would take to make it whole, and spare in
  // `num_tokens` more that it is expected to generate.
  std::optional<PromotionOffer> OfferReturn(const Sequence& sequence,
                                            int num_tokens) const;
  // Pages of it come back, `num_pages` at most, as PagesToPromote says; its
  // slots go with the last. Nothing where the device has no room for them.
  // Returns how many are copied.
  int64_t Promote(const Sequence& sequence, int64_t num_pages);
  // What a step has brought for one that has slots. `ends_token`: in the last
  // of the layers.
  void CountBrought(SequenceId id, const FetchedPieces& pieces,
                    bool ends_token);
  // What was asked of its slots in layers [first, end) of a step, whose
  // request `request` it was. REQUIRES: as Brought.
  void CountUse(SequenceId id, int request, int first_layer, int end_layer);
  // Of each that has been counted for kFrameMoveRows, frames go to the layers
  // in which they save most. REQUIRES: no step is in flight.
  void MoveFrames();
  // One frame goes from a layer to another. Nothing where either does not
  // choose, or keeps no frame by it, or may have no more. REQUIRES: as above.
  void MoveFrame(SequenceId id, int from_layer, int to_layer);
  // It has no slots any more; nothing where it had none. Its pages are kv's.
  void Close(SequenceId id);

  // KV blocks that its slots and what it holds take, and how many fewer it has
  // than if all its pages were whole.
  int64_t NumSlotKvBlocks(SequenceId id) const;
  int64_t NumSaved(SequenceId id) const;

  // Request i of the next step is ids[i]. False where all have whole pages
  // alone, and nothing is enqueued.
  bool WriteTables(Queue& queue, std::span<const SequenceId> ids);
  // By layer, for that step.
  std::span<const SlotTable> layers() const { return tables_->layers(); }
  std::span<const View> counts() const { return tables_->counts(); }
  // What Fetch counted in it goes to the host.
  void EnqueueCounts(Queue& queue);
  // Of request `request` of the step, in layers [first, end), and what came
  // near for it before. A layer that it holds is near: all that is read there
  // are hits. REQUIRES: the queue has come past EnqueueCounts.
  FetchedPieces Brought(int request, int first_layer, int end_layer) const;

  // For tests.
  const SlotLedger& ledger() const { return ledger_; }
  int64_t num_moved_frames() const { return num_moved_frames_; }

 private:
  // Since frames changed hands.
  struct Use {
    std::vector<SlotUsage> layers;
    int num_rows = 0;
  };

  RequestSlots(const Memory& memory, const SelectorSet& selectors,
               const RequestSlotsOptions& options,
               const SlotLedgerOptions& ledger);
  // What a sequence with slots has besides.
  struct Owner {
    int selector = -1;
    NearPlaces near = {};
  };
  // A request of the step.
  struct Row {
    int selector = -1;       // -1: all its pages are whole
    int64_t near_bytes = 0;  // that came near before it
  };

  std::span<const int> NearLayers(int selector) const {
    return near_layers_[static_cast<size_t>(selector)];
  }
  int64_t NumNearKvBlocks(int selector, int64_t num_places) const;
  // How many more it would hold with so many far pages more.
  int64_t NumMoreKvBlocks(SequenceId id, const Owner& owner,
                          int64_t num_pages) const;
  // So many as its places need.
  void HoldNear(SequenceId id, const Owner& owner);
  // The layer blocks of its far pages, by page and near layer.
  std::vector<uint32_t> NearLayerBlocks(SequenceId id,
                                        const Owner& owner) const;
  // Enqueues what is not there yet. Returns how many bytes cross the link.
  int64_t CopyNear(Queue& queue, const SlotRequest& request, Owner& owner);
  // None where nothing can leave.
  std::optional<PageRange> Movable(const Sequence& sequence) const;
  std::optional<DemotionOffer> Offer(const Sequence& sequence) const;
  std::vector<int> FramesOf(const Request& request,
                            const CacheBudget& budget) const;
  int64_t NumSlotKvBlocks(const Request& request, int64_t num_far,
                          const CacheBudget& budget) const;
  void MoveFrames(SequenceId id, const Use& use);
  std::vector<int> FramesByLayer(SequenceId id) const;
  void Resize(SequenceId id, const std::vector<int>& frames);
  // What Fetch has counted, [kNumFetchCounts]. REQUIRES: as Brought.
  const uint32_t* CountsOf(int request, int layer) const;
  int64_t PageBytes() const;
  int64_t PieceBytes() const;

  const Memory memory_;
  const SelectorSet& selectors_;
  const RequestSlotsOptions options_;
  SlotLedger ledger_;
  std::unique_ptr<SlotTables> tables_;
  std::vector<std::vector<int>> near_layers_;  // by selector
  std::map<SequenceId, Owner> owners_;         // of those that have slots
  std::vector<Row> rows_;                      // of a step
  Buffer counts_;                              // of a step, on the host
  // What one misses a token: its steps' mean, an eighth of which is the last.
  struct Missed {
    double bytes = 0;  // of a token on its way through the layers
    std::optional<double> bytes_a_token = {};
  };
  std::map<SequenceId, Missed> missed_;  // of those that have slots
  std::map<SequenceId, Use> uses_;       // of those that have slots
  int64_t num_moved_frames_ = 0;         // in all
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_RESIDENCY_REQUEST_SLOTS_H_
