#include "kv/slot_invariants.h"

#include <fmt/format.h>

#include <map>

#include "kv/extent_pool.h"

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

void CheckStrips(const SlotSnapshot& snapshot, const Uses& frames,
                 std::vector<std::string>& broken) {
  const auto num_layers = static_cast<uint32_t>(snapshot.num_layers);
  Uses places = frames;
  for (const uint32_t strip : snapshot.free_strips) ++places[strip];
  std::map<uint32_t, int> used_of_extent;
  for (const auto& [strip, times] : frames) {
    used_of_extent[strip / num_layers] += times;
  }
  size_t num_strips = 0;
  for (const SplitSnapshot& split : snapshot.split) {
    const uint32_t extent = split.extent.value();
    for (uint32_t layer = 0; layer < num_layers; ++layer) {
      const auto place = places.find(extent * num_layers + layer);
      const int times = place == places.end() ? 0 : place->second;
      num_strips += times > 0;
      if (times != 1) {
        broken.push_back(fmt::format("strip {} of extent {} has {} places",
                                     layer, extent, times));
      }
    }
    if (used_of_extent[extent] != split.num_used) {
      broken.push_back(fmt::format("extent {} has {} used strips, counted {}",
                                   extent, used_of_extent[extent],
                                   split.num_used));
    }
  }
  if (num_strips != places.size()) {
    broken.push_back(
        fmt::format("{} strips have a place, {} are of split "
                    "extents",
                    places.size(), num_strips));
  }
}

// Who has them, by extent.
std::map<uint32_t, std::map<SequenceId, int>> OwnersByExtent(
    const SlotSnapshot& snapshot) {
  const auto num_layers = static_cast<uint32_t>(snapshot.num_layers);
  std::map<uint32_t, std::map<SequenceId, int>> owners;
  for (const SlotOwnerSnapshot& owner : snapshot.owners) {
    for (const std::vector<uint32_t>& frames : owner.frames) {
      for (const uint32_t strip : frames) {
        ++owners[strip / num_layers][owner.sequence];
      }
    }
    for (const uint32_t strip : owner.held) {
      ++owners[strip / num_layers][owner.sequence];
    }
  }
  return owners;
}

void CheckOwner(const SlotOwnerSnapshot* owner, const TableSnapshot& table,
                int num_layers, std::vector<std::string>& broken) {
  int64_t num_far = 0, num_strips = 0, num_uncovered = 0;
  for (size_t page = 0; page < table.pages.size(); ++page) {
    if (table.pages[page] != kNoExtent) continue;
    ++num_far;
    const size_t segment = page / kSlotSegmentPages;
    num_uncovered += owner == nullptr || segment >= owner->segments.size() ||
                     owner->segments[segment] == kNoSlotSegment;
  }
  if (owner != nullptr) {
    for (const auto& frames : owner->frames) num_strips += std::ssize(frames);
    num_strips += std::ssize(owner->held);
  }
  if ((owner != nullptr) != (num_far > 0) ||
      num_strips > num_far * num_layers || num_uncovered > 0) {
    broken.push_back(fmt::format(
        "sequence {} has {} pages on the host alone, {} of them without a "
        "segment, and {} strips of slots",
        table.sequence.value(), num_far, num_uncovered, num_strips));
  }
}

}  // namespace

std::vector<std::string> BrokenInvariants(const SlotSnapshot& snapshot,
                                          const KvSnapshot& kv) {
  std::vector<std::string> broken;
  std::vector<ExtentId> split;
  for (const SplitSnapshot& extent : snapshot.split) {
    split.push_back(extent.extent);
  }
  if (split != kv.lent) {
    broken.push_back(fmt::format("{} extents are split, {} lent", split.size(),
                                 kv.lent.size()));
  }
  const auto owners = OwnersByExtent(snapshot);
  for (const ExtentId extent : split) {
    const auto found = owners.find(extent.value());
    if (found == owners.end() || found->second.size() != 1 ||
        found->second.begin()->second != snapshot.num_layers) {
      broken.push_back(
          fmt::format("extent {} is not one sequence's", extent.value()));
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
    for (const uint32_t strip : owner.held) ++frames[strip];
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
  CheckStrips(snapshot, frames, broken);
  return broken;
}

}  // namespace winnow
