#include "backend/conformance/slot_case.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/contract/replacement.h"

namespace winnow {
namespace {

std::vector<uint32_t> Shuffled(int64_t first, int64_t count,
                               RandomSource& random) {
  std::vector<uint32_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), static_cast<uint32_t>(first));
  std::ranges::shuffle(numbers, random.engine());
  return numbers;
}

// Takes the last `count` numbers.
std::vector<uint32_t> Take(std::vector<uint32_t>& from, int64_t count) {
  CHECK(std::ssize(from) >= count, "left={} wanted={}", from.size(), count);
  std::vector<uint32_t> taken(from.end() - count, from.end());
  from.resize(from.size() - taken.size());
  return taken;
}

constexpr int64_t kFrames = 400, kChunks = 16;

}  // namespace

SlotCase::SlotCase(const PagedCase& paged, int slot_tokens,
                   std::vector<int64_t> num_closed_pages, RandomSource& random)
    : paged_(paged),
      slot_tokens_(slot_tokens),
      format_(MakeHeadBlockFormat(paged.shape().dtype, paged.shape().k_dim,
                                  paged.shape().v_dim)),
      num_closed_pages_(std::move(num_closed_pages)) {
  format_.slot_tokens = slot_tokens;
  const KvShape& shape = paged.shape();
  std::vector<int> num_tokens;
  int64_t num_pages = 0, num_segments = 0;
  for (const RequestRows& rows : paged.requests()) {
    num_tokens.push_back(rows.end_position());
    num_pages += PagesFor(rows.end_position());
    num_segments += PagesFor(rows.end_position()) / kSegmentPages + 1;
  }
  kv_block_bytes_ = paged.HeadBlockOffset(1, 0);
  whole_ = paged.PoolImage(num_tokens);
  const auto first_frame =
      static_cast<int64_t>(whole_.size() / kv_block_bytes_);
  whole_.resize(whole_.size() + kFrames * kv_block_bytes_, kPoison);
  pool_ = whole_;
  free_frames_ = Shuffled(first_frame, kFrames, random);
  free_chunks_ = Shuffled(0, kChunks, random);
  std::vector<uint32_t> segments = Shuffled(0, num_segments, random);
  std::vector<uint32_t> host_pages = Shuffled(0, num_pages, random);
  host_kv_blocks_a_piece_ = random.Between(1, 7);
  host_layer_offset_bytes_ = 64 * random.Between(0, 3);
  host_kv_block_bytes_ =
      host_layer_offset_bytes_ +
      int64_t{format_.head_block_bytes} * shape.num_kv_heads +
      64 * random.Between(0, 2);
  host_.resize(static_cast<size_t>(num_pages * host_kv_block_bytes_), kPoison);
  for (size_t r = 0; r < paged.requests().size(); ++r) {
    const int64_t pages = PagesFor(num_tokens[r]);
    is_whole_.emplace_back(static_cast<size_t>(pages), true);
    reclaimable_.emplace_back(static_cast<size_t>(pages), false);
    frames_.emplace_back();
    chunks_.emplace_back();
    segments_.push_back(Take(segments, pages / kSegmentPages + 1));
    host_pages_.push_back(Take(host_pages, pages));
    CopyToHost(r);
  }
  const int64_t a_chunk = int64_t{kChunkFrames} * pieces_a_page();
  frame_table_ = TestArray(Dtype::kUInt32, {kChunks, kChunkFrames});
  tags_ = TestArray(Dtype::kUInt32, {kChunks, shape.num_kv_heads, a_chunk});
  ages_ = TestArray(Dtype::kUInt8, {kChunks, shape.num_kv_heads, a_chunk});
  entries_ = TestArray(Dtype::kUInt16,
                       {std::max<int64_t>(num_segments, 1), shape.num_kv_heads,
                        int64_t{kSegmentPages} * pieces_a_page()});
  for (double& entry : entries_.values) {
    entry = static_cast<double>(random.Chance(0.5) ? random.Between(0, 0xffff)
                                                   : random.Between(0, 99));
  }
}

void SlotCase::CopyToHost(size_t request) {
  for (int64_t page = 0; page < num_closed_pages_[request]; ++page) {
    const uint32_t kv_block = paged_.KvBlockOf(request, page);
    for (int head = 0; head < paged_.shape().num_kv_heads; ++head) {
      std::copy_n(whole_.begin() + static_cast<int64_t>(
                                       paged_.HeadBlockOffset(kv_block, head)),
                  format_.head_block_bytes,
                  host_.begin() +
                      static_cast<int64_t>(HostOffset(request, page, head)));
    }
  }
}

bool SlotCase::IsWhole(size_t request) const {
  return std::ranges::count(is_whole_[request], false) == 0;
}

void SlotCase::Draw(double whole_chance, int max_frames, RandomSource& random) {
  const int num_heads = paged_.shape().num_kv_heads;
  for (size_t r = 0; r < is_whole_.size(); ++r) {
    const bool all = random.Chance(0.1);
    const double reclaimable_chance = random.Among({0.0, 0.3, 0.9});
    for (int64_t page = 0; page < num_closed_pages_[r]; ++page) {
      const bool is_whole = all || random.Chance(whole_chance);
      const bool reclaimable = !is_whole && random.Chance(reclaimable_chance);
      is_whole_[r][static_cast<size_t>(page)] = is_whole;
      reclaimable_[r][static_cast<size_t>(page)] = reclaimable;
      for (int head = 0; head < num_heads; ++head) {
        const auto at = static_cast<int64_t>(
            paged_.HeadBlockOffset(paged_.KvBlockOf(r, page), head));
        if (is_whole || reclaimable) {
          std::copy_n(whole_.begin() + at, format_.head_block_bytes,
                      pool_.begin() + at);
        } else {
          std::fill_n(pool_.begin() + at, format_.head_block_bytes, kPoison);
        }
      }
    }
    Grow(r, static_cast<size_t>(random.Between(0, max_frames)), random);
  }
}

// What is added holds nothing; what is given back is written to by others.
void SlotCase::Grow(size_t request, size_t num_frames, RandomSource& random) {
  std::vector<uint32_t>& frames = frames_[request];
  while (frames.size() > num_frames) {
    std::fill_n(
        pool_.begin() + static_cast<int64_t>(frames.back() * kv_block_bytes_),
        kv_block_bytes_, kPoison);
    free_frames_.insert(
        free_frames_.begin() + random.Between(0, std::ssize(free_frames_)),
        frames.back());
    frames.pop_back();
  }
  std::vector<uint32_t>& chunks = chunks_[request];
  const size_t num_chunks = (num_frames + kChunkFrames - 1) / kChunkFrames;
  while (chunks.size() > num_chunks) {
    free_chunks_.push_back(chunks.back());
    chunks.pop_back();
  }
  while (chunks.size() < num_chunks) chunks.push_back(Take(free_chunks_, 1)[0]);
  while (frames.size() < num_frames) {
    const size_t frame = frames.size();
    frames.push_back(Take(free_frames_, 1)[0]);
    frame_table_.values[chunks[frame / kChunkFrames] * kChunkFrames +
                        frame % kChunkFrames] = frames.back();
    for (int head = 0; head < paged_.shape().num_kv_heads; ++head) {
      for (int piece = 0; piece < pieces_a_page(); ++piece) {
        const size_t state = StateIndex(
            request, head, static_cast<int>(frame) * pieces_a_page() + piece);
        tags_.values[state] = kNoPiece;
        ages_.values[state] = kEmptyAge;
      }
    }
  }
}

// From the first page that is not whole on.
std::vector<TableRow> SlotCase::FarRows() const {
  std::vector<TableRow> rows;
  for (size_t r = 0; r < host_pages_.size(); ++r) {
    const auto first = std::ranges::find(is_whole_[r], false);
    TableRow& row = rows.emplace_back();
    row.num_left_out = first - is_whole_[r].begin();
    for (int64_t page = row.num_left_out; page < std::ssize(host_pages_[r]);
         ++page) {
      row.entries.push_back(Lingers(r, page)
                                ? kReclaimable | paged_.KvBlockOf(r, page)
                                : host_pages_[r][static_cast<size_t>(page)]);
    }
  }
  return rows;
}

std::vector<std::byte> SlotCase::HostImage() const {
  std::vector<std::byte> image = host_;
  for (size_t r = 0; r < reclaimable_.size(); ++r) {
    for (int64_t page = 0; page < std::ssize(reclaimable_[r]); ++page) {
      if (!Lingers(r, page)) continue;
      std::fill_n(
          image.begin() + static_cast<int64_t>(HostOffset(r, page, 0)),
          int64_t{format_.head_block_bytes} * paged_.shape().num_kv_heads,
          kPoison);
    }
  }
  return image;
}

SlotCase::OnDevice SlotCase::Upload(TestDevice& device,
                                    bool shares_whole_pages) const {
  OnDevice on;
  on.pool = device.UploadBytes(pool_);
  on.cache = paged_.Cache(device, on.pool);
  on.cache.format = format_;
  std::vector<std::vector<uint32_t>> pages(is_whole_.size());
  std::vector<std::vector<uint32_t>> directory(is_whole_.size());
  std::vector<int32_t> num_segments, num_frames;
  on.slots.max_frames = 1;
  for (size_t r = 0; r < is_whole_.size(); ++r) {
    directory[r].resize(segments_[r].size(), kNoSegment);
    for (size_t page = 0; page < is_whole_[r].size(); ++page) {
      uint32_t kv_block = paged_.KvBlockOf(r, static_cast<int64_t>(page));
      if (shares_whole_pages && page < is_whole_[0].size()) {
        kv_block = paged_.KvBlockOf(0, static_cast<int64_t>(page));
      }
      pages[r].push_back(is_whole_[r][page] ? kv_block : kNotWhole);
      if (is_whole_[r][page]) continue;
      directory[r][page / kSegmentPages] = segments_[r][page / kSegmentPages];
    }
    while (!directory[r].empty() && directory[r].back() == kNoSegment) {
      directory[r].pop_back();
    }
    num_segments.push_back(static_cast<int32_t>(directory[r].size()));
    num_frames.push_back(static_cast<int32_t>(frames_[r].size()));
    on.slots.max_frames = std::max(on.slots.max_frames, num_frames.back());
  }
  on.cache.page_table = UploadRows(device, pages, kNotWhole);
  on.slots.num_segments = device.Upload(Int32Array(num_segments));
  on.slots.num_frames = device.Upload(Int32Array(num_frames));
  on.slots.directory = UploadRows(device, directory, kNoSegment);
  on.slots.chunks = UploadRows(device, chunks_, kChunks);
  on.slots.host_pages = UploadRows(device, FarRows(), kNotWhole);
  on.slots.entries = device.Upload(entries_, 4);
  on.slots.frames = device.Upload(frame_table_, 2);
  on.slots.tags = device.Upload(tags_, 2);
  on.slots.ages = device.Upload(ages_, 8);
  TestArray memory(Dtype::kInt64, {1});
  if (!host_.empty()) {
    on.host = device.UploadHostBytes(HostImage());
    const int64_t piece_bytes = host_kv_blocks_a_piece_ * host_kv_block_bytes_;
    const int64_t count = (std::ssize(host_) + piece_bytes - 1) / piece_bytes;
    memory = TestArray(Dtype::kInt64, {count});
    for (int64_t i = 0; i < count; ++i) {
      memory.values[static_cast<size_t>(i)] = static_cast<double>(
          reinterpret_cast<intptr_t>(on.host.data) + i * piece_bytes);
    }
  }
  on.slots.host_memory = device.Upload(memory);
  on.slots.layer_blocks = on.pool.data;
  on.slots.layer_block_bytes = static_cast<int64_t>(kv_block_bytes_);
  on.slots.host_kv_blocks_a_piece = host_kv_blocks_a_piece_;
  on.slots.host_kv_block_bytes = host_kv_block_bytes_;
  on.slots.host_layer_offset_bytes = host_layer_offset_bytes_;
  return on;
}

void SlotCase::Download(TestDevice& device, const OnDevice& from) {
  pool_ = device.DownloadBytes(from.pool);
  tags_ = device.Download(from.slots.tags);
  ages_ = device.Download(from.slots.ages);
  entries_ = device.Download(from.slots.entries);
}

size_t SlotCase::StateIndex(size_t request, int head, int slot) const {
  const int a_chunk = kChunkFrames * pieces_a_page();
  const uint32_t chunk = chunks_[request][static_cast<size_t>(slot / a_chunk)];
  const int64_t row = int64_t{chunk} * paged_.shape().num_kv_heads + head;
  return static_cast<size_t>(row * a_chunk + slot % a_chunk);
}

uint32_t SlotCase::Tag(size_t request, int head, int slot) const {
  return static_cast<uint32_t>(tags_.values[StateIndex(request, head, slot)]);
}

uint8_t SlotCase::Age(size_t request, int head, int slot) const {
  return static_cast<uint8_t>(ages_.values[StateIndex(request, head, slot)]);
}

uint16_t SlotCase::Entry(size_t request, int head, uint32_t piece) const {
  const auto a_segment = static_cast<size_t>(kSegmentPages * pieces_a_page());
  const uint32_t segment = segments_[request][piece / a_segment];
  const auto heads = static_cast<size_t>(paged_.shape().num_kv_heads);
  const size_t row = segment * heads + static_cast<size_t>(head);
  return static_cast<uint16_t>(
      entries_.values[row * a_segment + piece % a_segment]);
}

size_t SlotCase::FrameOffset(size_t request, int head, int slot) const {
  const auto frame = static_cast<size_t>(slot / pieces_a_page());
  return paged_.HeadBlockOffset(frames_[request][frame], head);
}

size_t SlotCase::HostOffset(size_t request, int64_t page, int head) const {
  const uint32_t kv_block = host_pages_[request][static_cast<size_t>(page)];
  return static_cast<size_t>(kv_block * host_kv_block_bytes_ +
                             host_layer_offset_bytes_ +
                             int64_t{head} * format_.head_block_bytes);
}

std::vector<std::byte> SlotCase::BytesAt(const std::vector<std::byte>& from,
                                         size_t slice, int index) const {
  std::vector<std::byte> bytes;
  const auto add = [&](int64_t offset, int dim) {
    const int64_t size =
        int64_t{slot_tokens_} * dim * DtypeBytes(paged_.shape().dtype);
    const auto begin =
        from.begin() + static_cast<int64_t>(slice) + offset + index * size;
    bytes.insert(bytes.end(), begin, begin + size);
  };
  add(0, format_.k_dim);
  add(format_.v_offset_bytes, format_.v_dim);
  return bytes;
}

std::vector<std::byte> SlotCase::BytesOfSlot(size_t request, int head,
                                             int slot) const {
  return BytesAt(pool_, FrameOffset(request, head, slot),
                 slot % pieces_a_page());
}

std::vector<std::byte> SlotCase::BytesOfPiece(size_t request, int head,
                                              uint32_t piece) const {
  const auto pieces = static_cast<uint32_t>(pieces_a_page());
  return BytesAt(host_, HostOffset(request, piece / pieces, head),
                 static_cast<int>(piece % pieces));
}

std::vector<std::byte> SlotCase::PoolWithoutSlots() const {
  std::vector<std::byte> pool = pool_;
  for (const auto& frames : frames_) {
    for (const uint32_t frame : frames) {
      std::fill_n(
          pool.begin() + static_cast<int64_t>(paged_.HeadBlockOffset(frame, 0)),
          int64_t{format_.head_block_bytes} * paged_.shape().num_kv_heads,
          kPoison);
    }
  }
  return pool;
}

}  // namespace winnow
