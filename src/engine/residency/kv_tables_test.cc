#include "engine/residency/kv_tables.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "cache/device/device_cache.h"
#include "cache/device/prompt_layer_blocks.h"
#include "model/config/shapes.h"

namespace winnow {
namespace {

constexpr int64_t k128K = 128 << 10;
// SPIN (arXiv 2604.26837, section on metadata): its tables against flat ones.
constexpr double kSpinTimes = 49;

class KvTablesTest : public ::testing::Test {
 protected:
  Selector SelectorOf(const std::string& spec) const {
    const SelectorShape shape = {
        .num_layers = config_.num_layers,
        .num_q_heads = config_.num_q_heads,
        .num_kv_heads = config_.num_kv_heads,
        .head_dim = config_.head_dim,
        .max_context_tokens = static_cast<int>(config_.max_context_tokens),
        .windows = config_.windows};
    return MakeSelector(spec, shape).value();
  }
  int64_t Bytes(const std::string& spec, const FarRequests& requests) const {
    const Selector selector = SelectorOf(spec);
    const SlotCapacity room =
        RoomFor(config_, Dtype::kBFloat16, selector, requests);
    return KvTablesOf(room, SummariesOf(config_, selector, room,
                                        requests.context_tokens))
        .total();
  }
  int64_t SummaryBytes(const std::string& spec,
                       const FarRequests& requests) const {
    const Selector selector = SelectorOf(spec);
    const SlotCapacity room =
        RoomFor(config_, Dtype::kBFloat16, selector, requests);
    return BytesOf(
               SummariesOf(config_, selector, room, config_.max_context_tokens))
        .rows;
  }
  double Times(const std::string& spec, const FarRequests& requests,
               int64_t table_bytes) const {
    return static_cast<double>(table_bytes) /
           static_cast<double>(Bytes(spec, requests));
  }

  ModelConfig config_ = ConfigOfShape("llama-3.1-8b").value();
};

TEST_F(KvTablesTest, SmallerThanTablesOfEveryToken) {
  const FarRequests requests = {.num_requests = 32, .context_tokens = k128K};
  // Of a number a token, the least that there could be.
  const int64_t least = TokenTableBytes(config_, requests);
  EXPECT_GE(Times("arkvale:budget=2K", requests, least), kSpinTimes);
  EXPECT_GE(Times("quest:budget=2K,block=32", requests, least), kSpinTimes);
  EXPECT_GE(Times("quest:budget=2K,block=16", requests, least), kSpinTimes / 2);
  const int64_t flat = FlatTableBytes(config_, requests);
  for (const std::string spec :
       {"quest:budget=2K,block=16", "shadowkv:budget=2K", "retroinfer"}) {
    EXPECT_GE(Times(spec, requests, flat), 2 * kSpinTimes) << spec;
  }
}

TEST_F(KvTablesTest, FlatTablesAreWhatSpinSays) {
  ModelConfig config = config_;
  config.num_layers = 80;
  config.num_kv_heads = 8;
  EXPECT_NEAR(static_cast<double>(FlatTableBytes(
                  config, {.num_requests = 32, .context_tokens = k128K})),
              100e9, 1);
}

// What requests have decides, on whatever machine: twice the requests, or
// contexts, take twice as much at most; and nothing says how long one may be.
TEST_F(KvTablesTest, GrowWithWhatThereIs) {
  const std::string spec = "quest:budget=2K";
  const auto bytes = [&](int num_requests, int64_t context_tokens) {
    return Bytes(spec, {num_requests, context_tokens});
  };
  for (int num_requests = 1; num_requests <= 128; num_requests *= 2) {
    for (int64_t context = 8 << 10; context <= 512 << 10; context *= 2) {
      const int64_t once = bytes(num_requests, context);
      EXPECT_LE(bytes(num_requests, 2 * context), 2 * once)
          << num_requests << " of " << context;
      EXPECT_LE(bytes(2 * num_requests, context), 2 * once + once / 8)
          << num_requests << " of " << context;
    }
  }
}

// Summaries are of what device and host hold, slots and layer blocks of layers
// that are read whole included, whatever requests may become: a sixteenth of
// KV, and a segment or two for each that is not full.
TEST_F(KvTablesTest, SummariesGrowWithWhatThereIs) {
  const auto kv_bytes = [&](const FarRequests& requests) {
    return requests.num_requests * requests.context_tokens *
           config_.num_layers * config_.num_kv_heads * 2 * config_.head_dim * 2;
  };
  for (int num_requests = 1; num_requests <= 256; num_requests *= 4) {
    const FarRequests requests = {.num_requests = num_requests,
                                  .context_tokens = k128K};
    const int64_t bytes = SummaryBytes("quest:budget=2K", requests);
    EXPECT_GE(bytes, kv_bytes(requests) / 16) << num_requests;
    EXPECT_LE(bytes, kv_bytes(requests) / 13) << num_requests;
  }
}

TEST_F(KvTablesTest, TellsWhatIsAllocated) {
  SlotCapacity room;
  room.pool = {.format = MakeHeadBlockFormat(Dtype::kFloat32, 4, 8),
               .num_layers = 3,
               .num_kv_heads = 2,
               .num_kv_blocks = 40};
  room.pool.format.slot_tokens = 8;
  room.num_host_kv_blocks = 300;
  room.max_sequences = 5;
  room.max_requests = 4;
  room.layer_frames = 9;
  const TableCapacity tables = {40, 300, 5};
  const std::unique_ptr<Backend> backend = MakeCpuBackend({.num_threads = 1});
  const auto cache =
      DeviceCache::Create(*backend, {.format = room.pool.format,
                                     .num_layers = 3,
                                     .num_kv_heads = 2,
                                     .num_kv_blocks = 40,
                                     .max_requests = 4,
                                     .max_pages_per_request = 99,
                                     .num_table_pages = NumTablePages(tables)})
          .value();
  const auto host =
      HostPool::Create(*backend, cache->pool(), {.num_kv_blocks = 300}).value();
  const auto slots =
      SlotTables::Create(*backend, cache->pool(), *host, SlotTablesFor(room))
          .value();
  SummaryCacheOptions summaries;
  summaries.max_requests = 4;
  summaries.num_table_entries = 7;
  const KvTablesBytes bytes = KvTablesOf(room, summaries);
  EXPECT_EQ(cache->num_bytes() - cache->pool().num_bytes(),
            static_cast<size_t>(bytes.page_tables));
  EXPECT_EQ(slots->num_bytes(), static_cast<size_t>(bytes.slots.total()));
  EXPECT_EQ(bytes.prompt_page_tables, (4 + 340) * 4);
  EXPECT_EQ(bytes.summary_table, (4 + 7) * 4);
}

}  // namespace
}  // namespace winnow
