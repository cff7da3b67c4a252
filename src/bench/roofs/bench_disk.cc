#include "bench/roofs/bench_disk.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "base/direct_folder.h"
#include "base/size_text.h"
#include "bench/roofs/bench_folder.h"
#include "bench/roofs/roof.h"
#include "cache/disk/disk_store.h"
#include "cli/command/flag_value.h"
#include "cli/command/output.h"

namespace winnow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kStagingBytes = 32 << 20;
const std::vector<PageKind> kOneKind = {0};

double GigabytesPerSecond(int64_t num_bytes, Clock::time_point start) {
  const std::chrono::duration<double> took = Clock::now() - start;
  return static_cast<double>(num_bytes) / took.count() / 1e9;
}

// What is to be measured, and the folder that goes with it.
class DiskBench {
 public:
  DiskBench(const std::filesystem::path& parent, int64_t piece_bytes,
            int64_t num_pieces)
      : folder_(parent),
        layout_(piece_bytes),
        num_pieces_(num_pieces),
        bytes_(AllocateBlocks(num_pieces * layout_.slot_bytes)),
        tokens_(static_cast<size_t>(num_pieces) * kPageTokens) {
    std::mt19937 random(1);
    for (int32_t& token : tokens_) token = static_cast<int32_t>(random());
    // All of it touched: a pool's memory has been, too.
    std::fill_n(bytes_.get(), num_pieces * layout_.slot_bytes, std::byte{0});
  }

  int num_under_way() const {
    return static_cast<int>(
        std::clamp<int64_t>(kStagingBytes / layout_.slot_bytes, 1,
                            DirectFolderOptions().max_transfers));
  }
  int64_t slot_bytes() const { return layout_.slot_bytes; }
  // Writes all pieces. Returns its rate.
  Result<double> Write();
  // Reads the file through, as many slots under way as the store has buffers.
  Result<double> ReadPlainly();
  Result<double> Restore();
  const std::string& note() const { return note_; }

 private:
  Result<std::unique_ptr<DirectFolder>> OpenFolder() {
    ASSIGN_OR_RETURN(std::unique_ptr<DirectFolder> folder,
                     DirectFolder::Open(folder_.path(), {}));
    note_ = folder->note();
    return folder;
  }
  Result<std::unique_ptr<DiskStore>> OpenStore();
  Status Finish(DiskStore& store);
  std::span<std::byte> Piece(int64_t index) {
    return {bytes_.get() + index * layout_.piece_bytes,
            static_cast<size_t>(layout_.piece_bytes)};
  }
  PrefixPath path() const { return {"", tokens_}; }

  const BenchFolder folder_;
  const DiskSlotLayout layout_;
  const int64_t num_pieces_;
  BlockBuffer bytes_;
  std::vector<int32_t> tokens_;
  std::string note_;
};

Result<std::unique_ptr<DiskStore>> DiskBench::OpenStore() {
  ASSIGN_OR_RETURN(std::unique_ptr<DirectFolder> folder, OpenFolder());
  return DiskStore::Open(std::move(folder),
                         {.header = {.made_with = {{"by", "winnow bench disk"}},
                                     .piece_bytes = layout_.piece_bytes},
                          .max_bytes = num_pieces_ * layout_.slot_bytes,
                          .staging_bytes = kStagingBytes});
}

Status DiskBench::Finish(DiskStore& store) {
  while (store.num_under_way() > 0) {
    for (const PieceDone& done : store.Wait()) RETURN_IF_ERROR(done.status);
  }
  return Ok{};
}

Result<double> DiskBench::Write() {
  std::mt19937_64 random(2);
  for (int64_t i = 0; i < num_pieces_ * layout_.piece_bytes / 8; ++i) {
    const uint64_t word = random();
    std::memcpy(bytes_.get() + i * 8, &word, sizeof(word));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<DiskStore> store, OpenStore());
  std::vector<std::span<const std::byte>> sources;
  for (int64_t i = 0; i < num_pieces_; ++i) sources.push_back(Piece(i));
  const std::vector<PageKind> kinds(sources.size());
  const Clock::time_point start = Clock::now();
  store->Write(path(), kinds, 0, sources);
  RETURN_IF_ERROR(Finish(*store));
  return GigabytesPerSecond(num_pieces_ * layout_.piece_bytes, start);
}

Result<double> DiskBench::ReadPlainly() {
  ASSIGN_OR_RETURN(const std::unique_ptr<DirectFolder> folder, OpenFolder());
  const Clock::time_point start = Clock::now();
  int64_t num_begun = 0, num_ended = 0;
  while (num_ended < num_pieces_) {
    std::vector<BlockTransfer> reads;
    while (num_begun < num_pieces_ && num_begun - num_ended < num_under_way()) {
      const int64_t offset = num_begun * layout_.slot_bytes;
      reads.push_back({.tag = static_cast<uint64_t>(num_begun++),
                       .offset = offset,
                       .bytes = {bytes_.get() + offset,
                                 static_cast<size_t>(layout_.slot_bytes)}});
    }
    folder->Submit(reads);
    std::array<BlockCompletion, 16> done;
    const size_t num_done = folder->Collect(done, /*wait=*/true);
    for (size_t i = 0; i < num_done; ++i) {
      if (done[i].num_bytes == layout_.slot_bytes) continue;
      return MakeError(ErrorCode::kIo, "{}: read {} bytes of {}, error {}",
                       folder->path(), done[i].num_bytes, layout_.slot_bytes,
                       done[i].error);
    }
    num_ended += static_cast<int64_t>(num_done);
  }
  return GigabytesPerSecond(num_pieces_ * layout_.slot_bytes, start);
}

Result<double> DiskBench::Restore() {
  ASSIGN_OR_RETURN(const std::unique_ptr<DiskStore> store, OpenStore());
  std::vector<std::span<std::byte>> targets;
  for (int64_t i = 0; i < num_pieces_; ++i) targets.push_back(Piece(i));
  const Clock::time_point start = Clock::now();
  const auto found = store->Find(path(), targets.size(), kOneKind);
  CHECK(std::ssize(found) == num_pieces_, "found={} of {}", found.size(),
        num_pieces_);
  store->Read(found, targets);
  RETURN_IF_ERROR(Finish(*store));
  return GigabytesPerSecond(num_pieces_ * layout_.piece_bytes, start);
}

Result<int64_t> DiskSize(std::string_view flag, const std::string& text) {
  ASSIGN_OR_RETURN(const int64_t size, SizeOf(flag, text));
  if (size >= 8) return size;
  return MakeError(ErrorCode::kInvalidArgument,
                   "{}: must be at least 8B, is {}", flag, text);
}

}  // namespace

Result<int> RunBenchDisk(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const int64_t piece_bytes,
                   DiskSize("--piece", flags.disk_piece));
  ASSIGN_OR_RETURN(const int64_t max_bytes,
                   DiskSize("--kv-disk-size", flags.kv_disk_size));
  const int64_t num_pieces = max_bytes / DiskSlotLayout(piece_bytes).slot_bytes;
  if (num_pieces < 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--kv-disk-size must hold a piece of {} and its trailer, "
                     "is {}",
                     FormatBytes(piece_bytes), FormatBytes(max_bytes));
  }
  DiskBench bench(flags.kv_disk, piece_bytes, num_pieces);
  ASSIGN_OR_RETURN(const double write_rate, bench.Write());
  std::vector<double> plain, restored, shares;
  for (int round = 0; round < flags.rounds; ++round) {
    const bool is_restored_first = round % 2 != 0;
    if (is_restored_first) {
      ASSIGN_OR_RETURN(const double rate, bench.Restore());
      restored.push_back(rate);
    }
    ASSIGN_OR_RETURN(const double rate, bench.ReadPlainly());
    plain.push_back(rate);
    if (!is_restored_first) {
      ASSIGN_OR_RETURN(const double other, bench.Restore());
      restored.push_back(other);
    }
    shares.push_back(restored.back() / plain.back());
  }
  const nlohmann::ordered_json report = {
      {"piece_bytes", piece_bytes},
      {"pieces", num_pieces},
      {"rounds", flags.rounds},
      {"under_way", bench.num_under_way()},
      {"note", bench.note()},
      {"write_gb_per_second", write_rate},
      {"plain_read_gb_per_second", Median(plain)},
      {"restore_gb_per_second", Median(restored)},
      {"share_of_plain_read", Median(shares)},
      // By round.
      {"plain_read_rates", plain},
      {"restore_rates", restored}};
  if (flags.engine.json) {
    const int indent = flags.engine.json_file.empty() ? -1 : 2;
    RETURN_IF_ERROR(WriteJson(flags.engine, report.dump(indent) + "\n"));
    return 0;
  }
  if (!bench.note().empty()) Print(bench.note() + "\n");
  Print(
      fmt::format("{} pages of {}, {} under way\nwrite {:9.3f} GB/s\n"
                  "plain read {:4.3f} GB/s\nrestore {:7.3f} GB/s, {:.3f} of "
                  "the plain read\n",
                  num_pieces, FormatBytes(piece_bytes), bench.num_under_way(),
                  write_rate, Median(plain), Median(restored), Median(shares)));
  return 0;
}

}  // namespace winnow
