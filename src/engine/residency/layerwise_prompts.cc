#include "engine/residency/layerwise_prompts.h"

#include <algorithm>

#include "base/size_text.h"

namespace winnow {

Result<std::unique_ptr<LayerwisePrompts>> LayerwisePrompts::Create(
    const RequestSlots::Memory& memory, const SelectorSet& selectors,
    RequestSlots& slots, const Options& options) {
  std::unique_ptr<LayerwisePrompts> prompts(
      new LayerwisePrompts(memory, selectors, slots, options));
  ASSIGN_OR_RETURN(
      prompts->layer_blocks_,
      PromptLayerBlocks::Create(
          memory.backend, memory.device.pool(), memory.host,
          {.max_requests = options.max_requests,
           .max_pages_per_request = options.max_pages_per_request,
           .num_table_pages = NumPromptTablePages(
               {.num_kv_blocks = memory.device.pool().options().num_kv_blocks,
                .num_host_kv_blocks = memory.host.num_kv_blocks()}),
           .row_bytes = prompts->RowBytes()}));
  return prompts;
}

std::unique_ptr<LayerwisePrompts> LayerwisePrompts::None(
    const RequestSlots::Memory& memory, const SelectorSet& selectors,
    RequestSlots& slots) {
  return std::unique_ptr<LayerwisePrompts>(
      new LayerwisePrompts(memory, selectors, slots, {}));
}

int64_t LayerwisePrompts::RowBytes() const {
  return int64_t{options_.hidden_size} * static_cast<int64_t>(sizeof(float));
}

// Where lists are read in other layers than they were chosen in, a step runs
// all of them.
bool LayerwisePrompts::MayTake(const Request& request) const {
  if (request.prefix || request.selector < 0 ||
      !slots_.MayServe(request.selector) ||
      selectors_.selector(request.selector).reuses()) {
    return false;
  }
  const int64_t num_life_tokens =
      std::ssize(request.prompt) + request.max_tokens - 1;
  return PagesFor(num_life_tokens) > memory_.kv.num_pages();
}

bool LayerwisePrompts::Takes(const Request& request) const {
  return MayTake(request) &&
         NumFarPages(request) >=
             slots_.NumSlotKvBlocks(request, NumFarPages(request));
}

std::string LayerwisePrompts::WayOut(const Request& request) const {
  if (!MayTake(request)) return {};
  const LayerCapacity room = RoomOf(request);
  const int64_t num_far = NumFarPages(request);
  const int64_t num_pages = memory_.kv.num_pages();
  if (num_far > memory_.kv.num_host_pages() ||
      room.num_whole_pages + room.num_layer_block_kv_blocks > num_pages) {
    return {};
  }
  const int64_t num_left =
      num_pages - room.num_whole_pages - room.num_later_pages;
  const std::optional<int64_t> tokens =
      slots_.BudgetWithin(request, num_far, std::min(num_far, num_left));
  if (!tokens) return {};
  return fmt::format("; a cache-budget of {} tokens would do", *tokens);
}

int64_t LayerwisePrompts::NumFarPages(const Request& request) const {
  const int64_t first_token = selectors_.FirstUnsummarized(
      request.selector, static_cast<int>(request.prompt.size()));
  return first_token / kPageTokens;
}

LayerCapacity LayerwisePrompts::RoomOf(const Request& request) const {
  const LayerBlockPool& pool = memory_.device.pool();
  const int64_t num_tokens = std::ssize(request.prompt);
  const int64_t num_far = NumFarPages(request);
  return LayerCapacityOf(
      {.num_layers = pool.options().num_layers,
       .layer_block_bytes = pool.layer_block_bytes(),
       .row_bytes = RowBytes()},
      {.num_tokens = num_tokens,
       .num_far_pages = num_far,
       .num_life_pages = PagesFor(num_tokens + request.max_tokens - 1),
       .num_slot_kv_blocks = slots_.NumSlotKvBlocks(request, num_far)});
}

Status LayerwisePrompts::Check(const Request& request) const {
  const LayerCapacity room = RoomOf(request);
  const int64_t num_far = NumFarPages(request);
  const KvCache& kv = memory_.kv;
  const int64_t page_bytes = memory_.host.kv_block_bytes();
  if (room.num_most() > kv.num_pages()) {
    return MakeError(
        ErrorCode::kResourceExhausted,
        "KV of {} tokens (a prompt of {} and max-tokens) needs {} even when it "
        "is read layer by layer (a layer's KV and hidden states: {}; then "
        "slots and {} of pages), device-kv holds {}{}",
        std::ssize(request.prompt) + request.max_tokens - 1,
        request.prompt.size(), FormatBytes(room.num_most() * page_bytes),
        FormatBytes(room.num_layer_block_kv_blocks * page_bytes),
        FormatBytes((room.num_whole_pages + room.num_later_pages) * page_bytes),
        FormatBytes(kv.num_pages() * page_bytes), WayOut(request));
  }
  if (num_far > kv.num_host_pages()) {
    return MakeError(
        ErrorCode::kResourceExhausted,
        "KV of a prompt of {} tokens, which device-kv ({}) cannot hold, needs "
        "{} of the host, host-kv holds {}",
        request.prompt.size(), FormatBytes(kv.num_pages() * page_bytes),
        FormatBytes(num_far * page_bytes),
        FormatBytes(kv.num_host_pages() * page_bytes));
  }
  return Ok{};
}

int64_t LayerwisePrompts::Open(const Sequence& sequence, const PrefixHit& hit) {
  const LayerCapacity room = RoomOf(sequence.request());
  memory_.kv.Open(sequence.id());
  return memory_.kv.LendTo(sequence.id(), room.num_lent(),
                           NumFarPages(sequence.request()), hit);
}

void LayerwisePrompts::End(const Sequence& sequence) {
  const int64_t num_far = NumFarPages(sequence.request());
  memory_.kv.TakeOver(sequence.id(), sequence.num_prompt_tokens());
  slots_.Cover(sequence, {.first = 0, .end = num_far, .num_whole = num_far});
}

PromptPlaces LayerwisePrompts::PlacesOf(const Sequence& sequence) const {
  const PageLoan& loan = memory_.kv.loan(sequence.id());
  const auto num_whole = static_cast<size_t>(
      PagesFor(sequence.num_prompt_tokens()) - std::ssize(loan.hosts));
  const std::span<const KvBlockId> kv_blocks = loan.kv_blocks;
  return {.hosts = loan.hosts,
          .whole = kv_blocks.first(num_whole),
          .lent = kv_blocks.subspan(num_whole)};
}

void LayerwisePrompts::WriteTables(Queue& queue, int layer,
                                   std::span<const Sequence* const> sequences) {
  std::vector<PromptPlaces> places;
  for (const Sequence* sequence : sequences) {
    places.push_back(PlacesOf(*sequence));
  }
  layer_blocks_->WriteTables(queue, layer, places);
}

void LayerwisePrompts::LoadRows(Queue& queue, const Sequence& sequence,
                                const StepItem& item, const View& rows) const {
  layer_blocks_->LoadRows(queue, PlacesOf(sequence), item.first_token, rows);
}

void LayerwisePrompts::StoreRows(Queue& queue, const Sequence& sequence,
                                 const StepItem& item, const View& rows) const {
  layer_blocks_->StoreRows(queue, PlacesOf(sequence), item.first_token, rows);
}

void LayerwisePrompts::CopyFromHost(Queue& queue, const Sequence& sequence,
                                    const StepItem& item) const {
  const int num_tokens = sequence.num_cached_tokens();
  if (item.first_token > num_tokens) return;
  layer_blocks_->CopyFromHost(queue, PlacesOf(sequence), item.first_layer,
                              num_tokens / kPageTokens);
}

void LayerwisePrompts::CopyToHost(Queue& queue, const Sequence& sequence,
                                  const StepItem& item) const {
  layer_blocks_->CopyToHost(queue, PlacesOf(sequence), item.first_layer,
                            item.first_token,
                            item.first_token + item.num_tokens);
}

int64_t LayerwisePrompts::BytesFromHost(const Sequence& sequence,
                                        const StepItem& item) const {
  const int num_tokens = sequence.num_cached_tokens();
  if (item.first_token > num_tokens) return 0;
  return num_tokens / kPageTokens * memory_.device.pool().layer_block_bytes();
}

int64_t LayerwisePrompts::BytesToHost(const Sequence& sequence,
                                      const StepItem& item) const {
  const int64_t first_page = item.first_token / kPageTokens;
  const int64_t end_page =
      std::min<int64_t>((item.first_token + item.num_tokens) / kPageTokens,
                        NumFarPages(sequence.request()));
  return std::max<int64_t>(0, end_page - first_page) *
         memory_.device.pool().layer_block_bytes();
}

}  // namespace winnow
