#include "kv/slot_invariants.h"

#include <fmt/format.h>

#include <map>

#include "kv/kv_block_pool.h"

namespace winnow {
namespace {

using Uses = std::map<uint32_t, int>;

// Every number in [0, count) at most once, and so many of them not at all.
void CheckUses(std::string_view what, const Uses& uses, int64_t count,
               int64_t num_free, std::vector<std::string>& broken) {
  for (const auto& [number, times] : uses) {
    if (number >= count) {
      broken.push_back(fmt::format("{} {} of {}", what, number, count));
    }
    if (times > 1) {
      broken.push_back(fmt::format("{} {} has {} owners", what, number, times));
    }
  }
  if (std::ssize(uses) + num_free != count) {
    broken.push_back(fmt::format("{}s: {} owned and {} free are not {}", what,
                                 uses.size(), num_free, count));
  }
}

void CheckLayerBlocks(const SlotSnapshot& snapshot, const Uses& frames,
                      std::vector<std::string>& broken) {
  const auto num_layers = static_cast<uint32_t>(snapshot.num_layers);
  Uses places = frames;
  for (const uint32_t layer_block : snapshot.free_layer_blocks)
    ++places[layer_block];
  std::map<uint32_t, int> used_of_kv_block;
  for (const auto& [layer_block, times] : frames) {
    used_of_kv_block[layer_block / num_layers] += times;
  }
  size_t num_layer_blocks = 0;
  for (const SplitSnapshot& split : snapshot.split) {
    const uint32_t kv_block = split.kv_block.value();
    for (uint32_t layer = 0; layer < num_layers; ++layer) {
      const auto place = places.find(kv_block * num_layers + layer);
      const int times = place == places.end() ? 0 : place->second;
      num_layer_blocks += times > 0;
      if (times != 1) {
        broken.push_back(
            fmt::format("layer block {} of KV block {} has {} places", layer,
                        kv_block, times));
      }
    }
    if (used_of_kv_block[kv_block] != split.num_used) {
      broken.push_back(
          fmt::format("KV block {} has {} used layer blocks, counted {}",
                      kv_block, used_of_kv_block[kv_block], split.num_used));
    }
  }
  if (num_layer_blocks != places.size()) {
    broken.push_back(
        fmt::format("{} layer blocks have a place, {} are of split "
                    "KV blocks",
                    places.size(), num_layer_blocks));
  }
}

// Who has them, by KV block.
std::map<uint32_t, std::map<SequenceId, int>> OwnersByKvBlock(
    const SlotSnapshot& snapshot) {
  const auto num_layers = static_cast<uint32_t>(snapshot.num_layers);
  std::map<uint32_t, std::map<SequenceId, int>> owners;
  for (const SlotOwnerSnapshot& owner : snapshot.owners) {
    for (const std::vector<uint32_t>& frames : owner.frames) {
      for (const uint32_t layer_block : frames) {
        ++owners[layer_block / num_layers][owner.sequence];
      }
    }
    for (const uint32_t layer_block : owner.held) {
      ++owners[layer_block / num_layers][owner.sequence];
    }
  }
  return owners;
}

void CheckOwner(const SlotOwnerSnapshot* owner, const TableSnapshot& table,
                int num_layers, std::vector<std::string>& broken) {
  int64_t num_far = 0, num_layer_blocks = 0, num_uncovered = 0;
  for (size_t page = 0; page < table.pages.size(); ++page) {
    if (table.pages[page] != kNoKvBlock) continue;
    ++num_far;
    const size_t segment = page / kSlotSegmentPages;
    num_uncovered += owner == nullptr || segment >= owner->segments.size() ||
                     owner->segments[segment] == kNoSlotSegment;
  }
  if (owner != nullptr) {
    for (const auto& frames : owner->frames)
      num_layer_blocks += std::ssize(frames);
    num_layer_blocks += std::ssize(owner->held);
  }
  if ((owner != nullptr) != (num_far > 0) ||
      num_layer_blocks > num_far * num_layers || num_uncovered > 0) {
    broken.push_back(fmt::format(
        "sequence {} has {} pages on the host alone, {} of them without a "
        "segment, and {} layer blocks of slots",
        table.sequence.value(), num_far, num_uncovered, num_layer_blocks));
  }
}

}  // namespace

std::vector<std::string> BrokenInvariants(const SlotSnapshot& snapshot,
                                          const KvSnapshot& kv) {
  std::vector<std::string> broken;
  std::vector<KvBlockId> split;
  for (const SplitSnapshot& kv_block : snapshot.split) {
    split.push_back(kv_block.kv_block);
  }
  if (split != kv.lent) {
    broken.push_back(fmt::format("{} KV blocks are split, {} lent",
                                 split.size(), kv.lent.size()));
  }
  const auto owners = OwnersByKvBlock(snapshot);
  for (const KvBlockId kv_block : split) {
    const auto found = owners.find(kv_block.value());
    if (found == owners.end() || found->second.size() != 1 ||
        found->second.begin()->second != snapshot.num_layers) {
      broken.push_back(
          fmt::format("KV block {} is not one sequence's", kv_block.value()));
    }
  }
  std::map<SequenceId, const SlotOwnerSnapshot*> by_sequence;
  for (const SlotOwnerSnapshot& owner : snapshot.owners) {
    by_sequence[owner.sequence] = &owner;
  }
  for (const TableSnapshot& table : kv.tables) {
    const auto owner = by_sequence.extract(table.sequence);
    CheckOwner(owner.empty() ? nullptr : owner.mapped(), table,
               snapshot.num_layers, broken);
  }
  for (const auto& [sequence, owner] : by_sequence) {
    broken.push_back(
        fmt::format("sequence {} has slots and no pages", sequence.value()));
  }
  return broken;
}

std::vector<std::string> BrokenInvariants(const SlotSnapshot& snapshot) {
  std::vector<std::string> broken;
  Uses segments, chunks, frames;
  for (const SlotOwnerSnapshot& owner : snapshot.owners) {
    for (const uint32_t segment : owner.segments) {
      if (segment != kNoSlotSegment) ++segments[segment];
    }
    for (const uint32_t layer_block : owner.held) ++frames[layer_block];
    for (size_t layer = 0; layer < owner.frames.size(); ++layer) {
      for (const uint32_t frame : owner.frames[layer]) ++frames[frame];
      for (const uint32_t chunk : owner.chunks[layer]) ++chunks[chunk];
      const auto a_chunk = static_cast<size_t>(snapshot.chunk_frames);
      const size_t needed =
          (owner.frames[layer].size() + a_chunk - 1) / a_chunk;
      if (owner.chunks[layer].size() != needed) {
        broken.push_back(fmt::format(
            "sequence {} layer {}: {} frames have {} chunks",
            owner.sequence.value(), layer, owner.frames[layer].size(),
            owner.chunks[layer].size()));
      }
    }
  }
  CheckUses("segment", segments, snapshot.num_segments,
            snapshot.num_free_segments, broken);
  CheckUses("chunk", chunks, snapshot.num_chunks, snapshot.num_free_chunks,
            broken);
  CheckLayerBlocks(snapshot, frames, broken);
  return broken;
}

}  // namespace winnow
