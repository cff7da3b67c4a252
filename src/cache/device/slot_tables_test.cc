// A ledger's decisions, carried out, and Fetch's work through them: whatever
// sequences come and go, a slot holds what its tag says, of its own sequence.
#include "cache/device/slot_tables.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "cache/testing/cache_case.h"

namespace winnow {
namespace {

constexpr int kPages = 90, kHostPages = 400;
constexpr int kDeviceKvBlocks = 80, kRequests = 3;

class SlotTablesTest : public ::testing::TestWithParam<
                           std::tuple<PoolLayout, int /*slot_tokens*/>> {
 protected:
  void SetUp() override {
    format_ = MakeHeadBlockFormat(Dtype::kFloat32, 4, 8);
    format_.slot_tokens = std::get<1>(GetParam());
    pieces_ = PiecesAPage(format_);
    auto pool =
        LayerBlockPool::Create(*backend_, {.format = format_,
                                           .num_layers = kNumLayers,
                                           .num_kv_heads = kNumHeads,
                                           .num_kv_blocks = kDeviceKvBlocks,
                                           .layout = std::get<0>(GetParam())});
    ASSERT_TRUE(pool.ok());
    pool_.emplace(std::move(pool).value());
    const int64_t kv_block_bytes = KvBlockBytes(format_, kNumLayers, kNumHeads);
    auto host = HostPool::Create(
        *backend_, *pool_,
        {.num_kv_blocks = kHostPages, .max_piece_bytes = 7 * kv_block_bytes});
    ASSERT_TRUE(host.ok());
    host_ = std::move(host).value();
    for (uint32_t page = 0; page < kHostPages; ++page) {
      const View bytes = host_->KvBlock(KvBlockId(page));
      auto* numbers = reinterpret_cast<float*>(bytes.data);
      for (int64_t i = 0; i < bytes.dim(0) / 4; ++i) {
        numbers[i] = static_cast<float>(page * 100000 + i % 90000);
      }
    }
    auto tables = SlotTables::Create(*backend_, *pool_, *host_,
                                     {.format = format_,
                                      .num_layers = kNumLayers,
                                      .num_kv_heads = kNumHeads,
                                      .num_segments = 8,
                                      .num_chunks = 20,
                                      .max_requests = kRequests,
                                      .num_far_pages = kHostPages,
                                      .num_table_pages = kRequests * kPages,
                                      .max_frames = 70,
                                      .num_near_layers = 2});
    ASSERT_TRUE(tables.ok()) << tables.error().message;
    tables_ = std::move(tables).value();
  }

  // What the host has of a piece: keys, then values.
  std::vector<float> Piece(KvBlockId page, int layer, int head,
                           int index) const {
    const std::byte* slice =
        host_->KvBlock(page).data +
        (layer * kNumHeads + head) * format_.head_block_bytes;
    return NumbersAt(slice, index);
  }
  std::vector<float> NumbersAt(const std::byte* slice, int index) const {
    const int tokens = format_.slot_tokens;
    const auto* k = reinterpret_cast<const float*>(slice) + index * tokens * 4;
    const auto* v =
        reinterpret_cast<const float*>(slice + 32 * 4 * 4) + index * tokens * 8;
    std::vector<float> numbers(k, k + tokens * 4);
    numbers.insert(numbers.end(), v, v + tokens * 8);
    return numbers;
  }
  // Of slot `slot` of frame after frame.
  std::vector<float> Slot(SequenceId sequence, int layer, int head,
                          int slot) const {
    const uint32_t layer_block =
        ledger_.frames(sequence, layer)[static_cast<size_t>(slot / pieces_)];
    return NumbersAt(pool_->Slice(static_cast<int>(layer_block % kNumLayers),
                                  KvBlockId(layer_block / kNumLayers), head),
                     slot % pieces_);
  }

  // Whole pages are none. Brings everything for one row a request; returns the
  // counts by layer and request.
  void Fetch(std::span<const SlotRequest> requests) {
    tables_->Clear(*queue_, ledger_, ledger_.TakeAdded());
    tables_->WriteRows(*queue_, ledger_, requests);
    std::vector<int32_t> row, first, position, ones, zeros;
    for (size_t r = 0; r < requests.size(); ++r) {
      row.push_back(static_cast<int32_t>(r));
      first.push_back(static_cast<int32_t>(r));
      position.push_back(
          static_cast<int32_t>(requests[r].host_pages.size()) * 32 - 1);
      ones.push_back(1);
      zeros.push_back(0);
    }
    const auto count = static_cast<int64_t>(requests.size());
    LayerStep step;
    step.num_rows = step.num_requests = static_cast<int>(count);
    step.row_to_request = MakeView(row.data(), Dtype::kInt32, {count});
    step.first_row = MakeView(first.data(), Dtype::kInt32, {count});
    step.first_position = MakeView(position.data(), Dtype::kInt32, {count});
    step.num_tokens = MakeView(ones.data(), Dtype::kInt32, {count});
    step.num_prefill_rows = MakeView(zeros.data(), Dtype::kInt32, {count});
    std::vector<int32_t> first_page;
    for (int64_t r = 0; r < count; ++r) {
      first_page.push_back(static_cast<int32_t>(r * kPages));
    }
    std::vector<uint32_t> page_table(static_cast<size_t>(count) * kPages,
                                     kNotWhole);
    for (int layer = 0; layer < kNumLayers; ++layer) {
      step.layer = layer;
      LayerCache cache;
      cache.format = format_;
      cache.num_kv_heads = kNumHeads;
      cache.layer_blocks = pool_->layer_blocks(layer);
      cache.kv_block_stride_bytes = pool_->kv_block_stride_bytes();
      cache.max_pages = kPages;
      cache.page_table = {
          .first = MakeView(first_page.data(), Dtype::kInt32, {count}),
          .entries = MakeView(page_table.data(), Dtype::kUInt32,
                              {std::ssize(page_table)})};
      FetchArgs args;
      args.slots = &tables_->layers()[static_cast<size_t>(layer)];
      args.counts = tables_->counts()[static_cast<size_t>(layer)];
      backend_->Fetch(*queue_, step, args, cache);
    }
  }
  // Everything is picked, so each slot for which there is a piece holds one;
  // the next Fetch finds as many.
  void ExpectSlots(const SlotRequest& request, int row, bool is_second) {
    for (int layer = 0; layer < kNumLayers; ++layer) {
      const SlotTable& slots = tables_->layers()[static_cast<size_t>(layer)];
      const auto frames = ledger_.frames(request.sequence, layer);
      const auto chunks = ledger_.chunks(request.sequence, layer);
      const int64_t num_slots = std::ssize(frames) * pieces_;
      int64_t num_held = 0;
      for (int head = 0; head < kNumHeads; ++head) {
        std::set<uint32_t> held;
        for (int slot = 0; slot < num_slots; ++slot) {
          const int a_chunk = kChunkFrames * pieces_;
          const uint32_t tag =
              (slots.tags.Row<uint32_t>(
                   chunks[static_cast<size_t>(slot / a_chunk)]) +
               head * slots.tags.stride[1])[slot % a_chunk];
          if (tag == kNoPiece) continue;
          EXPECT_TRUE(held.insert(tag).second) << "tag " << tag;
          const auto page =
              static_cast<size_t>(tag) / static_cast<size_t>(pieces_);
          ASSERT_LT(page, request.host_pages.size());
          EXPECT_EQ(Slot(request.sequence, layer, head, slot),
                    Piece(request.host_pages[page], layer, head,
                          static_cast<int>(tag) % pieces_));
        }
        num_held += std::ssize(held);
      }
      const int64_t num_picks =
          std::ssize(request.host_pages) * pieces_ * kNumHeads;
      EXPECT_EQ(num_held, std::min(num_slots * kNumHeads, num_picks));
      EXPECT_EQ(Count(layer, row, kPicksCount), num_picks);
      if (is_second) {
        EXPECT_EQ(Count(layer, row, kHitsCount), num_held);
      }
    }
  }
  uint32_t Count(int layer, int request, FetchCount what) const {
    return tables_->counts()[static_cast<size_t>(layer)].Row<uint32_t>(
        request)[what];
  }

  // What lies on the host does so on the device, and nobody may read it on the
  // host then.
  void Linger(KvBlockId on_host, KvBlockId kv_block) {
    const View host = host_->KvBlock(on_host);
    for (int layer = 0; layer < kNumLayers; ++layer) {
      std::memcpy(pool_->Slice(layer, kv_block, 0),
                  host.data + layer * pool_->layer_block_bytes(),
                  static_cast<size_t>(pool_->layer_block_bytes()));
    }
    std::memset(host.data, 0x7f, static_cast<size_t>(host.dim(0)));
  }

  // Where a kernel finds a page that is not whole, and no slot has it.
  const std::byte* FarPlace(int layer, int request, int page) const {
    const SlotTable& slots = tables_->layers()[static_cast<size_t>(layer)];
    const int64_t kv_block = slots.host_pages.At(request, page);
    const int64_t memory =
        slots.host_memory
            .As<int64_t>()[kv_block / slots.host_kv_blocks_a_piece];
    return reinterpret_cast<const std::byte*>(
        memory +
        kv_block % slots.host_kv_blocks_a_piece * slots.host_kv_block_bytes +
        slots.host_layer_offset_bytes);
  }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
  std::unique_ptr<Queue> queue_ = backend_->MakeQueue();
  HeadBlockFormat format_;
  int pieces_ = 1;
  std::optional<LayerBlockPool> pool_;
  std::unique_ptr<HostPool> host_;
  SlotLedger ledger_{{.num_layers = kNumLayers,
                      .num_segments = 8,
                      .num_chunks = 20,
                      .max_frames = 70}};
  std::unique_ptr<SlotTables> tables_;
};

TEST_P(SlotTablesTest, SlotsHoldTheirOwnSequence) {
  std::mt19937 random(5);
  const auto below = [&](int end) { return static_cast<int>(random() % end); };
  for (uint32_t kv_block = 0; kv_block < kDeviceKvBlocks; ++kv_block) {
    ledger_.Split(KvBlockId(kv_block));
  }
  struct Opened {
    std::vector<KvBlockId> pages;
    std::vector<int> frames = std::vector<int>(kNumLayers);
  };
  std::map<SequenceId, Opened> open;
  for (int round = 0; round < 60; ++round) {
    if (open.size() < kRequests && below(2) == 0) {
      const SequenceId id(static_cast<uint64_t>(round) + 1);
      ledger_.Open(id);
      auto& opened = open[id];
      const int num_pages = 1 + below(kPages);
      for (int page = 0; page < num_pages; ++page) {
        opened.pages.push_back(
            KvBlockId(static_cast<uint32_t>(below(kHostPages))));
      }
      ASSERT_TRUE(ledger_.Cover(id, 0, num_pages));
    } else if (!open.empty() && below(4) == 0) {
      ledger_.Close(open.begin()->first);
      open.erase(open.begin());
    }
    std::vector<SlotRequest> requests;
    for (auto& [id, opened] : open) {
      if (below(2) == 0) {
        std::vector<int> frames;
        for (int layer = 0; layer < kNumLayers; ++layer) {
          frames.push_back(below(below(3) == 0 ? 70 : 12));
        }
        if (ledger_.Resize(id, frames)) opened.frames = frames;
      }
      requests.push_back({id, opened.pages});
    }
    for (int again = 0; again < 2; ++again) {
      Fetch(requests);
      for (size_t r = 0; r < requests.size(); ++r) {
        ExpectSlots(requests[r], static_cast<int>(r), again > 0);
      }
    }
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  while (!open.empty()) {
    ledger_.Close(open.begin()->first);
    open.erase(open.begin());
  }
}

TEST_P(SlotTablesTest, RowsStandOneBehindTheOther) {
  const SequenceId first(1), second(2);
  const std::vector<KvBlockId> early = {KvBlockId(7), KvBlockId(9)};
  const std::vector<KvBlockId> late = {kNoKvBlock, kNoKvBlock, kNoKvBlock,
                                       KvBlockId(5), KvBlockId(6)};
  ledger_.Open(first);
  ledger_.Open(second);
  ASSERT_TRUE(ledger_.Cover(first, 0, 2) && ledger_.Cover(second, 3, 5));
  ledger_.Split(KvBlockId(0));
  ASSERT_TRUE(ledger_.Resize(first, std::array{0, 1, 0}));
  ASSERT_TRUE(ledger_.Resize(second, std::array{1, 0, 0}));
  const std::vector<SlotRequest> requests = {
      {SequenceId(9), {}}, {second, late}, {first, early}};
  tables_->WriteRows(*queue_, ledger_, requests);
  const SlotTable& slots = tables_->layers()[0];
  EXPECT_EQ(slots.num_segments.As<int32_t>()[0], 0);
  EXPECT_EQ(slots.host_pages.At(1, 3), 5u);
  EXPECT_EQ(slots.host_pages.At(1, 4), 6u);
  EXPECT_EQ(slots.host_pages.At(2, 0), 7u);
  EXPECT_EQ(slots.host_pages.At(2, 1), 9u);
  EXPECT_EQ(slots.directory.At(1, 0), ledger_.segments(second)[0]);
  EXPECT_EQ(slots.directory.At(2, 0), ledger_.segments(first)[0]);
  EXPECT_EQ(slots.chunks.At(1, 0), ledger_.chunks(second, 0)[0]);
  EXPECT_EQ(tables_->layers()[1].chunks.At(2, 0), ledger_.chunks(first, 1)[0]);
  EXPECT_EQ(slots.num_frames.As<int32_t>()[2], 0);
  ledger_.Close(first);
  ledger_.Close(second);
}

TEST_P(SlotTablesTest, ARequestThatIsWholeHasNothing) {
  const std::vector<SlotRequest> requests = {{SequenceId(9), {}}};
  tables_->WriteRows(*queue_, ledger_, requests);
  EXPECT_EQ(tables_->layers()[0].num_segments.As<int32_t>()[0], 0);
  EXPECT_EQ(tables_->layers()[2].num_frames.As<int32_t>()[0], 0);
}

// Every layer block of the pool in turn, of either request, in each layer:
// beside one whose pages lie on the host.
TEST_P(SlotTablesTest, AStripStandsForAPageWhereALayerIsNear) {
  const SequenceId near(1), far(2);
  const std::vector<KvBlockId> hosts = {kNoKvBlock, KvBlockId(399),
                                        KvBlockId(4), KvBlockId(17)};
  const std::vector<int> near_layers = {0, 2};
  for (uint32_t kv_block = 0; kv_block < kDeviceKvBlocks; ++kv_block) {
    ledger_.Split(KvBlockId(kv_block));
  }
  for (const SequenceId id : {near, far}) {
    ledger_.Open(id);
    ASSERT_TRUE(ledger_.Cover(id, 1, 4));
  }
  ASSERT_TRUE(ledger_.Hold(near, kDeviceKvBlocks * kNumLayers));
  const std::span<const uint32_t> held = ledger_.held(near);
  for (size_t first = 0; first + 6 <= held.size(); first += 6) {
    std::vector<uint32_t> layer_blocks(2, 0);  // of the page that is whole
    const auto own = held.subspan(first, 6);
    layer_blocks.insert(layer_blocks.end(), own.begin(), own.end());
    std::vector<NearCopy> copies;
    for (size_t i = 2; i < layer_blocks.size(); ++i) {
      copies.push_back({.host = hosts[i / 2],
                        .layer = near_layers[i % 2],
                        .layer_block = layer_blocks[i]});
    }
    tables_->CopyNear(*queue_, copies);
    const std::vector<SlotRequest> requests = {
        {.sequence = far, .host_pages = hosts},
        {.sequence = near,
         .host_pages = hosts,
         .near_layers = near_layers,
         .near_layer_blocks = layer_blocks}};
    tables_->WriteRows(*queue_, ledger_, requests);
    for (int layer = 0; layer < kNumLayers; ++layer) {
      for (int page = 1; page < 4; ++page) {
        const auto i = static_cast<size_t>(page) * 2 + (layer == 2 ? 1 : 0);
        const std::byte* on_host =
            host_->KvBlock(hosts[static_cast<size_t>(page)]).data +
            layer * pool_->layer_block_bytes();
        const std::byte* place =
            pool_->Slice(static_cast<int>(layer_blocks[i] % kNumLayers),
                         KvBlockId(layer_blocks[i] / kNumLayers), 0);
        EXPECT_EQ(FarPlace(layer, 0, page), on_host);
        EXPECT_EQ(FarPlace(layer, 1, page), layer == 1 ? on_host : place);
        EXPECT_EQ(std::memcmp(FarPlace(layer, 1, page), on_host,
                              static_cast<size_t>(pool_->layer_block_bytes())),
                  0);
      }
    }
    ASSERT_FALSE(HasFailure()) << "layer blocks from " << first;
  }
  ledger_.Close(near);
  ledger_.Close(far);
}

// A page that stays reclaimable is fetched from there, in each layer but those
// that are near, and so are its layer blocks of these.
TEST_P(SlotTablesTest, APageThatLingersComesFromTheDevice) {
  const SequenceId id(1);
  const std::vector<KvBlockId> hosts = {KvBlockId(2), KvBlockId(8),
                                        KvBlockId(4), KvBlockId(17)};
  const std::vector<ReclaimablePage> reclaimable = {{3, KvBlockId(79)},
                                                    {1, KvBlockId(60)}};
  for (const auto& [page, kv_block] : reclaimable) {
    Linger(hosts[static_cast<size_t>(page)], kv_block);
  }
  for (uint32_t kv_block = 0; kv_block < 9; ++kv_block) {
    ledger_.Split(KvBlockId(kv_block));
  }
  ledger_.Open(id);
  ASSERT_TRUE(ledger_.Cover(id, 0, 4));
  ASSERT_TRUE(ledger_.Resize(id, std::array{0, 4, 3}));
  ASSERT_TRUE(ledger_.Hold(id, 4));
  const std::vector<int> near_layers = {0};
  const std::vector<uint32_t> layer_blocks(ledger_.held(id).begin(),
                                           ledger_.held(id).end());
  const SlotRequest request = {.sequence = id,
                               .host_pages = hosts,
                               .near_layers = near_layers,
                               .near_layer_blocks = layer_blocks,
                               .reclaimable = reclaimable};
  std::vector<NearCopy> copies;
  for (const auto& [page, kv_block] : reclaimable) {
    copies.push_back({.host = hosts[static_cast<size_t>(page)],
                      .layer = 0,
                      .layer_block = layer_blocks[static_cast<size_t>(page)],
                      .reclaimable = kv_block});
  }
  tables_->CopyNear(*queue_, copies);
  Fetch(std::array{request});
  for (const auto& [page, kv_block] : reclaimable) {
    for (const int layer : {1, 2}) {
      const SlotTable& slots = tables_->layers()[static_cast<size_t>(layer)];
      EXPECT_EQ(slots.host_pages.At(0, page), kReclaimable | kv_block.value());
    }
    EXPECT_EQ(std::memcmp(FarPlace(0, 0, static_cast<int>(page)),
                          pool_->Slice(0, kv_block, 0),
                          static_cast<size_t>(pool_->layer_block_bytes())),
              0);
  }
  EXPECT_EQ(tables_->layers()[1].host_pages.At(0, 2), 4u);
  // Everything is picked, pages in their order.
  for (const int layer : {1, 2}) {
    EXPECT_EQ(Count(layer, 0, kReclaimableCount), 2 * pieces_ * kNumHeads);
    EXPECT_EQ(Count(layer, 0, kMissesCount), 4 * pieces_ * kNumHeads);
  }
  for (int head = 0; head < kNumHeads; ++head) {
    for (int index = 0; index < pieces_; ++index) {
      for (const auto& [page, kv_block] : reclaimable) {
        const int slot = static_cast<int>(page) * pieces_ + index;
        EXPECT_EQ(Slot(id, 1, head, slot),
                  NumbersAt(pool_->Slice(1, kv_block, head), index));
      }
    }
  }
  ledger_.Close(id);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, SlotTablesTest,
    ::testing::Combine(::testing::Values(PoolLayout::kLayerMajor,
                                         PoolLayout::kKvBlockMajor),
                       ::testing::Values(8, 32)));

}  // namespace
}  // namespace winnow
