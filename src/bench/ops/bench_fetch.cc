#include "bench/ops/bench_fetch.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "base/ids.h"

namespace winnow {
namespace {

constexpr int kLayers = 16;
constexpr int kSlotsAPick = 4;
constexpr int kPiecesASlot = 2;

// The piece that slot `slot` holds, were they in order: one of two neighbours.
uint32_t PieceOf(uint32_t slot) {
  return slot * kPiecesASlot + slot / kPiecesASlot % kPiecesASlot;
}

std::vector<uint32_t> Iota(int64_t count) {
  std::vector<uint32_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0u);
  return numbers;
}

}  // namespace

BenchFetch::BenchFetch(Backend& backend, const Shape& shape)
    : memory_(backend),
      shape_(shape),
      pieces_(kPageTokens / shape.slot_tokens),
      picks_a_head_(shape.picks_a_request / shape.num_kv_heads),
      num_slots_(picks_a_head_ * kSlotsAPick),
      num_pages_(num_slots_ * kPiecesASlot / pieces_) {}

Result<std::unique_ptr<BenchFetch>> BenchFetch::Create(Backend& backend,
                                                       const Shape& shape) {
  CHECK(backend.attributes().device_is_host, "tables are filled in place");
  std::unique_ptr<BenchFetch> bench(new BenchFetch(backend, shape));
  CHECK(bench->picks_a_head_ > 0 && bench->num_slots_ <= kMaxSlots &&
            bench->num_slots_ % bench->pieces_ == 0,
        "picks a KV head {} slot_tokens={}", bench->picks_a_head_,
        shape.slot_tokens);
  RETURN_IF_ERROR(bench->AllocateRows());
  RETURN_IF_ERROR(bench->AllocateTables());
  RETURN_IF_ERROR(bench->AllocatePicks());
  return bench;
}

Status BenchFetch::AllocateRows() {
  const int64_t count = shape_.num_requests;
  const auto put = [&](int first, int by) -> Result<View> {
    ASSIGN_OR_RETURN(const View view, memory_.Take(Dtype::kInt32, {count}));
    for (int i = 0; i < count; ++i) view.As<int32_t>()[i] = first + i * by;
    return view;
  };
  step_.num_rows = step_.num_requests = shape_.num_requests;
  ASSIGN_OR_RETURN(step_.row_to_request, put(0, 1));
  ASSIGN_OR_RETURN(step_.first_row, put(0, 1));
  ASSIGN_OR_RETURN(step_.first_position, put(num_pages_ * kPageTokens - 1, 0));
  ASSIGN_OR_RETURN(step_.num_tokens, put(1, 0));
  ASSIGN_OR_RETURN(step_.num_prefill_rows, put(0, 0));
  cache_.format =
      MakeHeadBlockFormat(shape_.kv_dtype, shape_.head_dim, shape_.head_dim);
  cache_.format.slot_tokens = shape_.slot_tokens;
  cache_.num_kv_heads = shape_.num_kv_heads;
  cache_.max_pages = num_pages_;
  const std::vector<uint32_t> pages(static_cast<size_t>(count * num_pages_),
                                    kNotWhole);
  ASSIGN_OR_RETURN(cache_.page_table, memory_.TakeRows(pages, num_pages_));
  return Ok{};
}

// A request's slots hold every second piece, in random order.
void BenchFetch::FillSlots(SlotTable& slots, std::minstd_rand& random) const {
  const int a_segment = kSegmentPages * pieces_;
  const int a_chunk = kChunkFrames * pieces_;
  const int64_t segments = PagesFor(num_pages_, kSegmentPages);
  const int64_t chunks = PagesFor(num_slots_, a_chunk);
  std::vector<uint32_t> pieces = Iota(num_slots_);
  std::ranges::transform(pieces, pieces.begin(), PieceOf);
  for (int64_t r = 0; r < shape_.num_requests; ++r) {
    slots.num_segments.As<int32_t>()[r] = static_cast<int32_t>(segments);
    slots.num_frames.As<int32_t>()[r] = num_slots_ / pieces_;
    for (int64_t head = 0; head < shape_.num_kv_heads; ++head) {
      std::shuffle(pieces.begin(), pieces.end(), random);
      for (int64_t slot = 0; slot < num_slots_; ++slot) {
        const uint32_t piece = pieces[static_cast<size_t>(slot)];
        (slots.tags.Row<uint32_t>(r * chunks + slot / a_chunk) +
         head * slots.tags.stride[1])[slot % a_chunk] = piece;
        (slots.entries.Row<uint16_t>(r * segments + piece / a_segment) +
         head * slots.entries.stride[1])[piece % a_segment] =
            static_cast<uint16_t>(slot);
      }
    }
  }
}

Status BenchFetch::AllocateTables() {
  const int64_t requests = shape_.num_requests, heads = shape_.num_kv_heads;
  const int64_t segments = PagesFor(num_pages_, kSegmentPages);
  const int64_t a_segment = int64_t{kSegmentPages} * pieces_;
  const int64_t a_chunk = int64_t{kChunkFrames} * pieces_;
  const int64_t chunks = PagesFor(num_slots_, a_chunk);
  // As a cache has them: those of all layers together, on huge pages.
  ASSIGN_OR_RETURN(const View entries,
                   memory_.Take(Dtype::kUInt16, {kLayers * requests * segments,
                                                 heads, a_segment}));
  ASSIGN_OR_RETURN(const View tags,
                   memory_.Take(Dtype::kUInt32,
                                {kLayers * requests * chunks, heads, a_chunk}));
  ASSIGN_OR_RETURN(const View ages,
                   memory_.Take(Dtype::kUInt8,
                                {kLayers * requests * chunks, heads, a_chunk}));
  std::minstd_rand random(5);
  for (int layer = 0; layer < kLayers; ++layer) {
    SlotTable& slots = layers_.emplace_back();
    ASSIGN_OR_RETURN(slots.num_segments,
                     memory_.Take(Dtype::kInt32, {requests}));
    ASSIGN_OR_RETURN(slots.num_frames, memory_.Take(Dtype::kInt32, {requests}));
    ASSIGN_OR_RETURN(slots.directory,
                     memory_.TakeRows(Iota(requests * segments), segments));
    ASSIGN_OR_RETURN(slots.chunks,
                     memory_.TakeRows(Iota(requests * chunks), chunks));
    slots.max_frames = num_slots_ / pieces_;
    // As a cache has them: a head's segments stand together.
    const int64_t of_head = requests * segments * a_segment;
    slots.entries =
        entries.Slice(layer * requests * segments, requests * segments);
    slots.entries.stride = {a_segment, of_head, 1};
    slots.tags = tags.Slice(layer * requests * chunks, requests * chunks);
    slots.ages = ages.Slice(layer * requests * chunks, requests * chunks);
    FillSlots(slots, random);
  }
  return Ok{};
}

Status BenchFetch::AllocatePicks() {
  const int64_t requests = shape_.num_requests, heads = shape_.num_kv_heads;
  ASSIGN_OR_RETURN(counts_,
                   memory_.Take(Dtype::kUInt32, {requests, kNumFetchCounts}));
  std::minstd_rand random(9);
  ASSIGN_OR_RETURN(const View picks,
                   memory_.Take(Dtype::kUInt32,
                                {kLayers * requests, heads, picks_a_head_, 2}));
  for (int layer = 0; layer < kLayers; ++layer) {
    PickLists& lists = lists_.emplace_back();
    lists.picks = picks.Slice(layer * requests, requests);
    ASSIGN_OR_RETURN(lists.num_picks,
                     memory_.Take(Dtype::kInt32, {requests, heads}));
    ASSIGN_OR_RETURN(lists.num_lists, memory_.Take(Dtype::kInt32, {requests}));
    for (int64_t r = 0; r < requests; ++r) {
      lists.NumLists(r) = shape_.num_kv_heads;
      for (int64_t head = 0; head < heads; ++head) {
        lists.NumPicks(r, head) = picks_a_head_;
        // One of each run of pieces that are there.
        for (int i = 0; i < picks_a_head_; ++i) {
          const auto slot =
              static_cast<uint32_t>(i * kSlotsAPick) + random() % kSlotsAPick;
          const uint32_t piece = PieceOf(slot);
          const auto of_page = static_cast<int>(piece) % pieces_;
          lists.List(r, head)[i] = {
              piece / static_cast<uint32_t>(pieces_),
              ~uint32_t{0} >> (kPageTokens - shape_.slot_tokens)
                                  << (of_page * shape_.slot_tokens)};
        }
      }
    }
  }
  return Ok{};
}

void BenchFetch::Run() {
  const size_t layer = run_++ % layers_.size();
  FetchArgs args;
  args.source = {.kind = AttendSource::Kind::kPicks, .picks = lists_[layer]};
  args.slots = &layers_[layer];
  args.counts = counts_;
  memory_.backend().Fetch(memory_.queue(), step_, args, cache_);
}

double BenchFetch::bytes() const {
  const double heads = static_cast<double>(shape_.num_requests) *
                       static_cast<double>(shape_.num_kv_heads);
  // A pick, its page's KV block, entry and tag; of each slot the age, twice.
  constexpr double kPickBytes = 8 + 4 + 2 + 4;
  return heads * (picks_a_head_ * kPickBytes + num_slots_ * 2.0);
}

}  // namespace winnow
