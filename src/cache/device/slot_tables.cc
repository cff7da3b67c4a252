#include "cache/device/slot_tables.h"

#include <algorithm>
#include <cstring>

#include "backend/contract/replacement.h"

namespace winnow {

static_assert(kSlotSegmentPages == kSegmentPages);
static_assert(kSlotChunkFrames == kChunkFrames);
static_assert(kNoSlotSegment == kNoSegment);

namespace {

constexpr int64_t kWordBytes = sizeof(uint32_t);

// Which numbers of a step's requests stand before their rows, one after the
// other: [max_requests] each.
enum Number : int {
  kNumSegments,
  kFirstSegment,
  kByLayer,  // then, for each layer, these:
};
enum LayerNumber : int {
  kNumFrames,
  kFirstChunk,
  kFirstFarPage,
  kNumLayerNumbers,
};
int NumberOf(int layer, LayerNumber which) {
  return kByLayer + kNumLayerNumbers * layer + which;
}

int64_t HeadWords(const SlotTablesOptions& options) {
  return int64_t{options.max_requests} *
         NumberOf(options.num_layers, kNumFrames);
}

// Rows have no more than there is of all.
int64_t RowsWords(const SlotTablesOptions& options) {
  const int64_t num_segments =
      options.num_table_pages / kSegmentPages + options.max_requests;
  return HeadWords(options) + num_segments +
         (1 + options.num_near_layers) * options.num_far_pages +
         options.num_chunks;
}

bool HasSlots(const SlotTablesOptions& options, int layer) {
  return options.slot_layers.empty() ||
         options.slot_layers[static_cast<size_t>(layer)];
}

int64_t NumEntryLayers(const SlotTablesOptions& options) {
  int64_t count = 0;
  for (int layer = 0; layer < options.num_layers; ++layer) {
    count += HasSlots(options, layer);
  }
  return count;
}

}  // namespace

SlotTablesBytes BytesOf(const SlotTablesOptions& options) {
  const int64_t heads = options.num_kv_heads;
  const int64_t pieces = PiecesAPage(options.format);
  const int64_t num_states = options.num_chunks * heads * kChunkFrames * pieces;
  const int64_t num_entries = options.num_segments * NumEntryLayers(options) *
                              heads * kSegmentPages * pieces;
  return {.entries = num_entries * int64_t{sizeof(uint16_t)},
          .tags = num_states * int64_t{sizeof(uint32_t)},
          .ages = num_states,
          .frames = options.num_chunks * kChunkFrames * kWordBytes,
          .rows = RowsWords(options) * kWordBytes,
          .counts = int64_t{options.num_layers} * options.max_requests *
                    kNumFetchCounts * kWordBytes};
}

Result<std::unique_ptr<SlotTables>> SlotTables::Create(
    Backend& backend, const LayerBlockPool& device, const HostPool& host,
    const SlotTablesOptions& options) {
  CHECK(options.num_layers > 0 && options.num_kv_heads > 0 &&
            options.num_segments > 0 && options.num_chunks > 0 &&
            options.max_requests > 0 && options.num_far_pages > 0 &&
            options.num_table_pages > 0 && options.max_frames > 0 &&
            NumEntryLayers(options) > 0,
        "num_layers={} num_kv_heads={} num_segments={} num_chunks={} "
        "max_requests={} num_far_pages={} num_table_pages={} max_frames={}",
        options.num_layers, options.num_kv_heads, options.num_segments,
        options.num_chunks, options.max_requests, options.num_far_pages,
        options.num_table_pages, options.max_frames);
  const int max_slots = options.max_frames * PiecesAPage(options.format);
  if (max_slots > kMaxSlots) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "slots of a layer and KV head must be at most {}, are {}",
                     kMaxSlots, max_slots);
  }
  std::unique_ptr<SlotTables> tables(
      new SlotTables(backend, device, host, options));
  CHECK(tables->NumPlaces() * host.kv_blocks_per_piece() <= kReclaimable &&
            device.options().num_kv_blocks <= kReclaimable,
        "places={} of {} KV blocks num_kv_blocks={}", tables->NumPlaces(),
        host.kv_blocks_per_piece(), device.options().num_kv_blocks);
  RETURN_IF_ERROR(tables->Allocate());
  tables->FillPlaces();
  tables->MakeLayers();
  return tables;
}

SlotTables::SlotTables(Backend& backend, const LayerBlockPool& device,
                       const HostPool& host, const SlotTablesOptions& options)
    : backend_(backend),
      device_(device),
      host_(host),
      options_(options),
      pieces_(PiecesAPage(options.format)) {}

Status SlotTables::Allocate() {
  const auto allocate = [&](Tier tier, int64_t num_bytes, std::string_view what,
                            Buffer& to) -> Status {
    ASSIGN_OR_RETURN(
        to, backend_.Allocate(tier, static_cast<size_t>(num_bytes), what));
    return Ok{};
  };
  const int64_t a_chunk = int64_t{kChunkFrames} * pieces_;
  const SlotTablesBytes bytes = BytesOf(options_);
  RETURN_IF_ERROR(
      allocate(Tier::kDevice, bytes.entries, "slot entries", entries_));
  RETURN_IF_ERROR(allocate(Tier::kDevice, bytes.tags, "slot tags", tags_));
  RETURN_IF_ERROR(allocate(Tier::kDevice, bytes.ages, "slot ages", ages_));
  RETURN_IF_ERROR(
      allocate(Tier::kDevice, bytes.frames, "slot frames", frames_));
  RETURN_IF_ERROR(
      allocate(Tier::kHost, bytes.frames, "slot frames, host", frames_mirror_));
  RETURN_IF_ERROR(
      allocate(Tier::kDevice, bytes.counts, "slot counts", counts_bytes_));
  RETURN_IF_ERROR(
      allocate(Tier::kHost, bytes.counts, "slot counts, host", zeros_));
  std::memset(zeros_.data(), 0, zeros_.num_bytes());
  RETURN_IF_ERROR(allocate(Tier::kHost, a_chunk * 5, "empty slots", blank_));
  std::memset(blank_.data(), 0xff, static_cast<size_t>(a_chunk) * 4);
  static_assert(kNoPiece == 0xffffffffu);
  std::memset(blank_.data() + a_chunk * 4, kEmptyAge,
              static_cast<size_t>(a_chunk));
  RETURN_IF_ERROR(allocate(Tier::kDevice, bytes.rows, "slot rows", rows_));
  for (Buffer& staging : staging_) {
    RETURN_IF_ERROR(
        allocate(Tier::kHost, bytes.rows, "slot rows, host", staging));
  }
  return allocate(Tier::kHost, NumPlaces() * int64_t{8},
                  "where the host's pool lies", host_memory_);
}

void SlotTables::MakeLayers() {
  const int64_t heads = options_.num_kv_heads;
  const int64_t requests = options_.max_requests;
  const int64_t a_chunk = int64_t{kChunkFrames} * pieces_;
  const int64_t a_segment = int64_t{kSegmentPages} * pieces_;
  const int64_t layer_block_bytes = heads * options_.format.head_block_bytes;
  const auto numbers = [&](int number) {
    return rows_.At(static_cast<size_t>(number * requests * kWordBytes),
                    Dtype::kInt32, {requests});
  };
  const View words = WordsOf(rows_, 0, RowsWords(options_));
  int64_t num_with_entries = 0;
  for (int layer = 0; layer < options_.num_layers; ++layer) {
    SlotTable& slots = layers_.emplace_back();
    slots.num_segments = numbers(kNumSegments);
    slots.num_frames = numbers(NumberOf(layer, kNumFrames));
    slots.directory = {numbers(kFirstSegment), words};
    slots.host_pages = {numbers(NumberOf(layer, kFirstFarPage)), words};
    slots.chunks = {numbers(NumberOf(layer, kFirstChunk)), words};
    // A head's segments stand together: those of a request are mostly
    // neighbours, and read as one.
    const int64_t of_head = options_.num_segments * a_segment;
    // Where nobody has slots, no entry leads to one: any will do.
    const int64_t index = HasSlots(options_, layer) ? num_with_entries++ : 0;
    slots.entries = entries_.At(
        static_cast<size_t>(index * heads * of_head * 2), Dtype::kUInt16, {1});
    slots.entries.rank = 3;
    slots.entries.shape = {options_.num_segments, heads, a_segment};
    slots.entries.stride = {a_segment, of_head, 1};
    slots.frames =
        frames_.At(0, Dtype::kUInt32, {options_.num_chunks, kChunkFrames});
    slots.tags =
        tags_.At(0, Dtype::kUInt32, {options_.num_chunks, heads, a_chunk});
    slots.ages =
        ages_.At(0, Dtype::kUInt8, {options_.num_chunks, heads, a_chunk});
    slots.max_frames = options_.max_frames;
    slots.layer_blocks = device_.layer_blocks(0);
    slots.layer_block_bytes = layer_block_bytes;
    slots.host_memory = host_memory_.At(0, Dtype::kInt64, {NumPlaces()});
    slots.host_kv_blocks_a_piece = host_.kv_blocks_per_piece();
    slots.host_kv_block_bytes = host_.kv_block_bytes();
    slots.host_layer_offset_bytes = layer * layer_block_bytes;
    counts_.push_back(counts_bytes_.At(
        static_cast<size_t>(layer * requests * kNumFetchCounts * 4),
        Dtype::kUInt32, {requests, kNumFetchCounts}));
  }
}

View SlotTables::WordsOf(const Buffer& buffer, int64_t first,
                         int64_t count) const {
  return buffer.At(static_cast<size_t>(first * 4), Dtype::kUInt32, {count});
}

uint32_t SlotTables::LayerBlockNumber(uint32_t layer_block) const {
  const auto layers = static_cast<uint32_t>(options_.num_layers);
  return device_.LayerBlockNumber(static_cast<int>(layer_block % layers),
                                  KvBlockId(layer_block / layers));
}

// Numbers of requests, and rows behind these, one after another.
class SlotTables::RowWriter {
 public:
  RowWriter(const SlotTablesOptions& options, std::byte* to)
      : max_requests_(options.max_requests),
        room_(RowsWords(options)),
        words_(reinterpret_cast<uint32_t*>(to)),
        used_(HeadWords(options)) {}

  // Of a row that has been added, by where it begins.
  uint32_t& At(uint32_t first, int64_t page) {
    return words_[first + static_cast<uint32_t>(page)];
  }
  uint32_t& Number(int which, size_t request) {
    return words_[which * max_requests_ + static_cast<int64_t>(request)];
  }
  // Returns where the row begins.
  uint32_t Add(std::span<const uint32_t> row) {
    CHECK(used_ + std::ssize(row) <= room_, "words={} row={} room={}", used_,
          row.size(), room_);
    std::ranges::copy(row, words_ + used_);
    used_ += std::ssize(row);
    return static_cast<uint32_t>(used_ - std::ssize(row));
  }
  // The numbers of pages [first, end). Returns where page 0 would stand.
  template <typename NumberOf>
  uint32_t AddPages(int64_t first, int64_t end, const NumberOf& number_of) {
    pages_.clear();
    for (int64_t page = first; page < end; ++page) {
      pages_.push_back(number_of(page));
    }
    return Add(pages_) - static_cast<uint32_t>(first);
  }
  int64_t used() const { return used_; }

 private:
  const int64_t max_requests_, room_;
  uint32_t* const words_;
  int64_t used_;
  std::vector<uint32_t> pages_;
};

void SlotTables::WriteRequest(const SlotLedger& ledger,
                              const SlotRequest& request, size_t row,
                              RowWriter& writer) const {
  writer.Number(kNumSegments, row) = 0;
  for (int layer = 0; layer < options_.num_layers; ++layer) {
    writer.Number(NumberOf(layer, kNumFrames), row) = 0;
  }
  const SequenceId id = request.sequence;
  if (!ledger.is_open(id)) return;
  const std::span<const uint32_t> segments = ledger.segments(id);
  writer.Number(kNumSegments, row) = static_cast<uint32_t>(segments.size());
  writer.Number(kFirstSegment, row) = writer.Add(segments);
  // Rows of far pages begin with the first of these.
  const auto far = std::ranges::find_if(
      request.host_pages, [](KvBlockId page) { return page != kNoKvBlock; });
  const int64_t first = far - request.host_pages.begin();
  const int64_t end = std::ssize(request.host_pages);
  const uint32_t on_host = writer.AddPages(first, end, [&](int64_t page) {
    return request.host_pages[static_cast<size_t>(page)].value();
  });
  for (const ReclaimablePage& page : request.reclaimable) {
    writer.At(on_host, page.page) = kReclaimable | page.kv_block.value();
  }
  for (int layer = 0; layer < options_.num_layers; ++layer) {
    writer.Number(NumberOf(layer, kNumFrames), row) =
        static_cast<uint32_t>(ledger.frames(id, layer).size());
    writer.Number(NumberOf(layer, kFirstChunk), row) =
        writer.Add(ledger.chunks(id, layer));
    writer.Number(NumberOf(layer, kFirstFarPage), row) = on_host;
  }
  const size_t num_near = request.near_layers.size();
  for (size_t i = 0; i < num_near; ++i) {
    const int layer = request.near_layers[i];
    writer.Number(NumberOf(layer, kFirstFarPage), row) =
        writer.AddPages(first, end, [&](int64_t page) {
          const auto at = static_cast<size_t>(page) * num_near + i;
          return FarNumber(layer, request.near_layer_blocks[at]);
        });
  }
}

void SlotTables::WriteRows(Queue& queue, const SlotLedger& ledger,
                           std::span<const SlotRequest> requests) {
  CHECK(std::ssize(requests) <= options_.max_requests,
        "requests={} max_requests={}", requests.size(), options_.max_requests);
  turn_ = (turn_ + 1) % staging_.size();
  RowWriter writer(options_, staging_[turn_].data());
  for (size_t row = 0; row < requests.size(); ++row) {
    WriteRequest(ledger, requests[row], row, writer);
  }
  backend_.Copy(queue, WordsOf(staging_[turn_], 0, writer.used()),
                WordsOf(rows_, 0, writer.used()));
  const auto counts_bytes = static_cast<int64_t>(zeros_.num_bytes());
  backend_.Copy(queue, zeros_.At(0, Dtype::kUInt8, {counts_bytes}),
                counts_bytes_.At(0, Dtype::kUInt8, {counts_bytes}));
}

void SlotTables::Clear(Queue& queue, const SlotLedger& ledger,
                       std::span<const AddedFrames> added) {
  const int64_t heads = options_.num_kv_heads;
  const int64_t a_chunk = int64_t{kChunkFrames} * pieces_;
  auto* mirror = reinterpret_cast<uint32_t*>(frames_mirror_.data());
  for (const AddedFrames& of : added) {
    const std::span<const uint32_t> frames =
        ledger.frames(of.sequence, of.layer);
    const std::span<const uint32_t> chunks =
        ledger.chunks(of.sequence, of.layer);
    int end = 0;
    for (int first = of.first; first < of.end; first = end) {
      end = std::min(of.end, (first / kChunkFrames + 1) * kChunkFrames);
      const int64_t chunk = chunks[static_cast<size_t>(first / kChunkFrames)];
      const int64_t in_chunk = first % kChunkFrames;
      for (int frame = first; frame < end; ++frame) {
        mirror[chunk * kChunkFrames + frame % kChunkFrames] =
            LayerBlockNumber(frames[static_cast<size_t>(frame)]);
      }
      const int64_t at = chunk * kChunkFrames + in_chunk;
      backend_.Copy(queue, WordsOf(frames_mirror_, at, end - first),
                    WordsOf(frames_, at, end - first));
      const int64_t count = int64_t{end - first} * pieces_;
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t state =
            (chunk * heads + head) * a_chunk + in_chunk * pieces_;
        backend_.Copy(queue, WordsOf(blank_, 0, count),
                      WordsOf(tags_, state, count));
        backend_.Copy(
            queue,
            blank_.At(static_cast<size_t>(a_chunk * 4), Dtype::kUInt8, {count}),
            ages_.At(static_cast<size_t>(state), Dtype::kUInt8, {count}));
      }
    }
  }
}

size_t SlotTables::num_bytes() const {
  return entries_.num_bytes() + tags_.num_bytes() + ages_.num_bytes() +
         frames_.num_bytes() + rows_.num_bytes() + counts_bytes_.num_bytes();
}

}  // namespace winnow
