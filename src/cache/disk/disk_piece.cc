#include "cache/disk/disk_piece.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace winnow {
namespace {

static_assert(std::endian::native == std::endian::little,
              "trailers lie on disk as they lie in memory");

constexpr std::array<char, 8> kMagic = {'w', 'i', 'n', 'n', 'o', 'w', 'K', 'V'};

// The last block of a slot, as it lies there.
struct Trailer {
  std::array<char, 8> magic;
  DiskFolderId folder;
  PieceId id;
  PieceId parent;
  std::array<uint64_t, 2> piece_hash;  // XXH3, of all before the trailer
  std::array<int32_t, kPageTokens> tokens;
  PageKind kind;
  uint32_t root_bytes;
  std::array<char, kMaxDiskRootBytes> root;
  uint32_t unused;
  uint64_t own_hash;  // XXH3, of all before it
};
static_assert(sizeof(Trailer) == kBlockBytes);
static_assert(offsetof(Trailer, own_hash) == kBlockBytes - sizeof(uint64_t));

// Of what lies before the trailer, in two places.
std::array<uint64_t, 2> PieceHash(std::span<const std::byte> first,
                                  std::span<const std::byte> rest) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, first.data(), first.size());
  XXH3_128bits_update(&state, rest.data(), rest.size());
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return {hash.low64, hash.high64};
}

uint64_t OwnHash(const Trailer& trailer) {
  return XXH3_64bits(&trailer, offsetof(Trailer, own_hash));
}

std::optional<Trailer> ValidTrailer(const DiskFolderId& folder,
                                    std::span<const std::byte> block) {
  CHECK(std::ssize(block) == kBlockBytes, "bytes={}", block.size());
  Trailer trailer;
  std::memcpy(&trailer, block.data(), sizeof(trailer));
  if (trailer.magic != kMagic || trailer.own_hash != OwnHash(trailer) ||
      trailer.folder != folder || trailer.root_bytes > kMaxDiskRootBytes) {
    return std::nullopt;
  }
  return trailer;
}

PieceLabel LabelOf(const Trailer& trailer) {
  return {.id = trailer.id,
          .parent = trailer.parent,
          .root = std::string(trailer.root.data(), trailer.root_bytes),
          .kind = trailer.kind,
          .tokens = trailer.tokens};
}

}  // namespace

DiskSlotLayout::DiskSlotLayout(int64_t num_piece_bytes)
    : piece_bytes(num_piece_bytes) {
  CHECK(piece_bytes > 0, "piece_bytes={}", piece_bytes);
  trailer_offset = (piece_bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  slot_bytes = trailer_offset + kBlockBytes;
}

void SealSlot(const DiskSlotLayout& layout, const DiskFolderId& folder,
              const PieceLabel& label, std::span<std::byte> slot) {
  CHECK(std::ssize(slot) == layout.slot_bytes, "bytes={} slot_bytes={}",
        slot.size(), layout.slot_bytes);
  CHECK(label.root.size() <= kMaxDiskRootBytes, "root_bytes={}",
        label.root.size());
  std::fill(slot.begin() + layout.piece_bytes,
            slot.begin() + layout.trailer_offset, std::byte{0});
  Trailer trailer = {};
  trailer.magic = kMagic;
  trailer.folder = folder;
  trailer.id = label.id;
  trailer.parent = label.parent;
  trailer.piece_hash =
      PieceHash({}, slot.first(static_cast<size_t>(layout.trailer_offset)));
  trailer.tokens = label.tokens;
  trailer.kind = label.kind;
  trailer.root_bytes = static_cast<uint32_t>(label.root.size());
  std::copy(label.root.begin(), label.root.end(), trailer.root.begin());
  trailer.own_hash = OwnHash(trailer);
  std::memcpy(slot.data() + layout.trailer_offset, &trailer, sizeof(trailer));
}

std::optional<PieceLabel> ReadTrailer(const DiskFolderId& folder,
                                      std::span<const std::byte> trailer) {
  const std::optional<Trailer> valid = ValidTrailer(folder, trailer);
  if (!valid) return std::nullopt;
  return LabelOf(*valid);
}

bool IsWhole(const DiskSlotLayout& layout, const DiskFolderId& folder,
             const PieceLabel& label, std::span<const std::byte> first,
             std::span<const std::byte> rest) {
  CHECK(std::ssize(first) + std::ssize(rest) == layout.slot_bytes &&
            std::ssize(rest) >= kBlockBytes,
        "first={} rest={} slot_bytes={}", first.size(), rest.size(),
        layout.slot_bytes);
  const size_t num_hashed = rest.size() - static_cast<size_t>(kBlockBytes);
  const std::optional<Trailer> trailer =
      ValidTrailer(folder, rest.subspan(num_hashed));
  return trailer && LabelOf(*trailer) == label &&
         trailer->piece_hash == PieceHash(first, rest.first(num_hashed));
}

uint64_t DrawNumber() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

PageHasher::PageHasher() {
  static_assert(sizeof(secret_) >= XXH3_SECRET_SIZE_MIN);
  std::generate(secret_.begin(), secret_.end(), DrawNumber);
}

uint64_t PageHasher::Hash(PieceId parent, uint32_t root, PageKind kind,
                          std::span<const int32_t> tokens) const {
  struct Key {
    PieceId parent;
    uint32_t root;
    PageKind kind;
    std::array<int32_t, kPageTokens> tokens;
  } key = {.parent = parent, .root = root, .kind = kind, .tokens = {}};
  static_assert(std::has_unique_object_representations_v<Key>);
  CHECK(tokens.size() == kPageTokens, "tokens={}", tokens.size());
  std::copy(tokens.begin(), tokens.end(), key.tokens.begin());
  return XXH3_64bits_withSecret(&key, sizeof(key), secret_.data(),
                                sizeof(secret_));
}

}  // namespace winnow
