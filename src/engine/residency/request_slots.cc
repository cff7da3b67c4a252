#include "engine/residency/request_slots.h"

#include <algorithm>

#include "base/check.h"
#include "engine/selection/slot_tokens.h"

namespace winnow {

static_assert(kNoKvBlock.value() == kNotWhole);

std::optional<int> RequestSlots::SlotTokens(const SelectorSet& selectors) {
  std::optional<int> tokens;
  for (int i = 0; i < selectors.size(); ++i) {
    const std::optional<int> of_one = SlotTokensOf(selectors.selector(i));
    if (of_one) tokens = std::min(*of_one, tokens.value_or(kPageTokens));
  }
  return tokens;
}

Result<std::unique_ptr<RequestSlots>> RequestSlots::Create(
    const Memory& memory, const SelectorSet& selectors,
    const RequestSlotsOptions& options) {
  const LayerBlockPoolOptions& pool = memory.device.pool().options();
  SlotCapacity room = {.pool = pool,
                       .num_host_kv_blocks = memory.host.num_kv_blocks(),
                       .max_sequences = options.max_sequences,
                       .max_requests = options.max_requests};
  for (int i = 0; i < selectors.size(); ++i) {
    const Selector& selector = selectors.selector(i);
    if (!SlotTokensOf(selector)) continue;
    const std::vector<int> frames =
        SlotFramesOf(selector, pool.format.slot_tokens, options.max_model_len,
                     options.budget);
    room.layer_frames = std::max(room.layer_frames, std::ranges::max(frames));
    room.AddLayersOf(selector);
  }
  const SlotTablesOptions tables = SlotTablesFor(room);
  const SlotLedgerOptions ledger = {.num_layers = pool.num_layers,
                                    .num_segments = tables.num_segments,
                                    .num_chunks = tables.num_chunks,
                                    .max_frames = tables.max_frames};
  std::unique_ptr<RequestSlots> slots(
      new RequestSlots(memory, selectors, options, ledger));
  ASSIGN_OR_RETURN(slots->tables_,
                   SlotTables::Create(memory.backend, memory.device.pool(),
                                      memory.host, tables));
  ASSIGN_OR_RETURN(
      slots->counts_,
      memory.backend.Allocate(
          Tier::kHost,
          static_cast<size_t>(slots->tables_->count_bytes().dim(0)),
          "what Fetch counts, host"));
  return slots;
}

std::unique_ptr<RequestSlots> RequestSlots::None(const Memory& memory,
                                                 const SelectorSet& selectors) {
  return std::unique_ptr<RequestSlots>(new RequestSlots(
      memory, selectors, {},
      {.num_layers = memory.device.pool().options().num_layers}));
}

RequestSlots::RequestSlots(const Memory& memory, const SelectorSet& selectors,
                           const RequestSlotsOptions& options,
                           const SlotLedgerOptions& ledger)
    : memory_(memory),
      selectors_(selectors),
      options_(options),
      ledger_(ledger) {
  for (int i = 0; i < selectors.size(); ++i) {
    near_layers_.push_back(NearLayersOf(selectors.selector(i)));
  }
}

bool RequestSlots::MayServe(int selector) const {
  return is_there() && SlotTokensOf(selectors_.selector(selector)).has_value();
}

std::vector<int> RequestSlots::FramesOf(const Request& request,
                                        const CacheBudget& budget) const {
  return SlotFramesOf(selectors_.selector(request.selector),
                      memory_.device.pool().options().format.slot_tokens,
                      std::ssize(request.prompt) + request.max_tokens, budget);
}

std::optional<PageRange> RequestSlots::Movable(const Sequence& sequence) const {
  const int selector = sequence.request().selector;
  if (selector < 0 || !MayServe(selector)) {
    return std::nullopt;
  }
  if (!sequence.waits_for_one()) return std::nullopt;
  const int64_t first_token = selectors_.FirstTokenToRead(
      selector, sequence.id(), sequence.num_computed());
  const PageRange range =
      memory_.kv.Movable(sequence.id(), first_token / kPageTokens);
  if (range.num_whole == 0) return std::nullopt;
  return range;
}

std::optional<DemotionOffer> RequestSlots::Offer(
    const Sequence& sequence) const {
  const std::optional<PageRange> range = Movable(sequence);
  if (!range) return std::nullopt;
  DemotionOffer offer = {.sequence = sequence.id(),
                         .num_pages = range->num_whole};
  const auto owner = owners_.find(sequence.id());
  offer.num_slot_kv_blocks =
      owner == owners_.end()
          ? NumSlotKvBlocks(sequence.request(), range->num_whole)
          : NumMoreKvBlocks(sequence.id(), owner->second, range->num_whole);
  return offer;
}

int64_t RequestSlots::NumSlotKvBlocks(const Request& request, int64_t num_far,
                                      const CacheBudget& budget) const {
  int64_t num_layer_blocks = 0;
  for (const int frames : FramesOf(request, budget)) num_layer_blocks += frames;
  return num_layer_blocks / ledger_.options().num_layers +
         NumNearKvBlocks(request.selector, num_far);
}

int64_t RequestSlots::NumSlotKvBlocks(const Request& request,
                                      int64_t num_far) const {
  return NumSlotKvBlocks(request, num_far, options_.budget);
}

std::optional<int64_t> RequestSlots::BudgetWithin(const Request& request,
                                                  int64_t num_far,
                                                  int64_t num_kv_blocks) const {
  // In pages: so many do, or are none, and more than the others do not.
  int64_t fits = 0;
  int64_t most = PagesFor(std::ssize(request.prompt) + request.max_tokens);
  while (fits < most) {
    const int64_t tried = (fits + most + 1) / 2;
    const CacheBudget budget = {.tokens = tried * kPageTokens};
    const bool is_within =
        NumSlotKvBlocks(request, num_far, budget) <= num_kv_blocks;
    (is_within ? fits : most) = is_within ? tried : tried - 1;
  }
  if (fits == 0) return std::nullopt;
  return fits * kPageTokens;
}

void RequestSlots::Cover(const Sequence& sequence, const PageRange& far) {
  const SequenceId id = sequence.id();
  if (!ledger_.is_open(id)) {
    ledger_.Open(id);
    owners_[id].selector = sequence.request().selector;
    const int64_t num_kv_blocks = NumSlotKvBlocks(sequence.request(), 0);
    for (int64_t i = 0; i < num_kv_blocks; ++i) {
      ledger_.Split(*memory_.kv.Lend());
    }
    CHECK(ledger_.Resize(id, FramesOf(sequence.request(), options_.budget)),
          "sequence={} KV blocks={}", id.value(), num_kv_blocks);
  }
  Owner& owner = owners_.at(id);
  if (!NearLayers(owner.selector).empty()) {
    owner.near.Cover(far.first, far.end);
    HoldNear(id, owner);
  }
  CHECK(ledger_.Cover(id, far.first, far.end), "sequence={} first={} end={}",
        id.value(), far.first, far.end);
}

bool RequestSlots::MakeRoom(Sequences sequences, int64_t num_wanted) {
  if (num_wanted <= 0) return false;
  std::vector<DemotionOffer> offers;
  for (const auto& sequence : sequences) {
    const std::optional<DemotionOffer> offer = Offer(*sequence);
    if (offer) offers.push_back(*offer);
  }
  const std::vector<SequenceId> chosen = ChooseDemotions(
      offers, num_wanted, memory_.kv.num_available_host_pages());
  for (const SequenceId id : chosen) {
    const auto found = std::ranges::find(
        sequences, id, [](const auto& sequence) { return sequence->id(); });
    CHECK(Demote(**found), "sequence={}", id.value());
  }
  return !chosen.empty();
}

void RequestSlots::DemoteAll(Sequences sequences) {
  for (const auto& sequence : sequences) {
    const std::optional<DemotionOffer> offer = Offer(*sequence);
    if (offer && offer->gain() > 0) Demote(*sequence);
  }
}

bool RequestSlots::Demote(Sequence& sequence) {
  const std::optional<DemotionOffer> offer = Offer(sequence);
  KvCache& kv = memory_.kv;
  // Who has slots never holds more than if all its pages were whole.
  if (!offer || offer->gain() < 0 ||
      offer->num_pages > kv.num_available_host_pages()) {
    return false;
  }
  const PageRange range = *Movable(sequence);
  sequence.CountWritten(kv.MoveToHost(sequence.id(), range) * PageBytes());
  Cover(sequence, range);
  return true;
}

int64_t RequestSlots::PageBytes() const {
  const LayerBlockPoolOptions& pool = memory_.device.pool().options();
  return pool.format.head_block_bytes * pool.num_kv_heads * pool.num_layers;
}

int64_t RequestSlots::PieceBytes() const {
  const HeadBlockFormat& format = memory_.device.pool().options().format;
  return int64_t{format.slot_tokens} * (format.k_dim * DtypeBytes(format.k) +
                                        format.v_dim * DtypeBytes(format.v));
}

std::optional<PromotionOffer> RequestSlots::OfferReturn(
    const Sequence& sequence, int num_tokens) const {
  const SequenceId id = sequence.id();
  if (!ledger_.is_open(id) || sequence.layerwise()) return std::nullopt;
  PromotionOffer offer = {.sequence = id,
                          .num_pages = memory_.kv.NumFar(id),
                          .num_slot_kv_blocks = NumSlotKvBlocks(id)};
  offer.copied_bytes =
      static_cast<double>(memory_.kv.NumToCopy(id) * PageBytes());
  const auto missed = missed_.find(id);
  if (missed != missed_.end()) {
    offer.missed_bytes = missed->second.bytes_a_token.value_or(0) * num_tokens;
  }
  return offer;
}

int64_t RequestSlots::Promote(const Sequence& sequence, int64_t num_pages) {
  const std::optional<PromotionOffer> offer = OfferReturn(sequence, 0);
  if (!offer) return 0;
  KvCache& kv = memory_.kv;
  const int64_t num_chosen = PagesToPromote(*offer, num_pages);
  const bool is_all = num_chosen == offer->num_pages;
  const int64_t num_room =
      kv.num_free_pages() + (is_all ? offer->num_slot_kv_blocks : 0);
  if (num_chosen > num_room) return 0;
  // What slots hold lies on the host too.
  if (is_all) Close(sequence.id());
  const int64_t num_copied = kv.MoveToDevice(sequence.id(), num_chosen);
  if (!is_all) {
    const std::span<const KvBlockId> pages = kv.pages(sequence.id());
    const int64_t first_far =
        std::ranges::find(pages, kNoKvBlock) - pages.begin();
    ledger_.Uncover(sequence.id(), first_far);
    owners_.at(sequence.id()).near.Uncover(first_far);
  }
  return num_copied;
}

void RequestSlots::CountBrought(SequenceId id, const FetchedPieces& pieces,
                                bool ends_token) {
  constexpr double kLastShare = 0.125;
  if (!ledger_.is_open(id)) return;
  Missed& missed = missed_[id];
  missed.bytes += static_cast<double>(pieces.misses * PieceBytes());
  if (!ends_token) return;
  const double mean = missed.bytes_a_token.value_or(missed.bytes);
  missed.bytes_a_token = mean + kLastShare * (missed.bytes - mean);
  missed.bytes = 0;
}

void RequestSlots::Close(SequenceId id) {
  if (!ledger_.is_open(id)) return;
  missed_.erase(id);
  uses_.erase(id);
  owners_.erase(id);
  ledger_.Close(id);
  while (const auto kv_block = ledger_.Join()) memory_.kv.GiveBack(*kv_block);
}

int64_t RequestSlots::NumSlotKvBlocks(SequenceId id) const {
  if (!ledger_.is_open(id)) return 0;
  int64_t num_layer_blocks = 0;
  const int num_layers = ledger_.options().num_layers;
  for (int layer = 0; layer < num_layers; ++layer) {
    num_layer_blocks += std::ssize(ledger_.frames(id, layer));
  }
  num_layer_blocks += std::ssize(ledger_.held(id));
  return num_layer_blocks / num_layers;
}

int64_t RequestSlots::NumSaved(SequenceId id) const {
  if (!ledger_.is_open(id)) return 0;
  const KvCache& kv = memory_.kv;
  return std::ssize(kv.pages(id)) - kv.NumWhole(id) - NumSlotKvBlocks(id);
}

bool RequestSlots::WriteTables(Queue& queue, std::span<const SequenceId> ids) {
  std::vector<SlotRequest> requests;
  std::vector<std::vector<uint32_t>> layer_blocks(ids.size());
  std::vector<std::vector<ReclaimablePage>> reclaimable(ids.size());
  rows_.assign(ids.size(), {});
  bool any = false;
  for (size_t i = 0; i < ids.size(); ++i) {
    const SequenceId id = ids[i];
    SlotRequest& request = requests.emplace_back(
        SlotRequest{.sequence = id, .host_pages = memory_.kv.far_pages(id)});
    const auto owner = owners_.find(id);
    if (owner == owners_.end()) continue;
    any = true;
    reclaimable[i] = memory_.kv.ReclaimablePagesOf(id);
    request.reclaimable = reclaimable[i];
    layer_blocks[i] = NearLayerBlocks(id, owner->second);
    request.near_layers = NearLayers(owner->second.selector);
    request.near_layer_blocks = layer_blocks[i];
    rows_[i] = {.selector = owner->second.selector,
                .near_bytes = CopyNear(queue, request, owner->second)};
  }
  if (!any) return false;
  tables_->Clear(queue, ledger_, ledger_.TakeAdded());
  tables_->WriteRows(queue, ledger_, requests);
  return true;
}

void RequestSlots::EnqueueCounts(Queue& queue) {
  const View from = tables_->count_bytes();
  memory_.backend.Copy(queue, from,
                       counts_.At(0, Dtype::kUInt8, {from.dim(0)}));
}

}  // namespace winnow
