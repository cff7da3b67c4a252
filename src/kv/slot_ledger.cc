#include "kv/slot_ledger.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace winnow {
namespace {

int64_t NumChunks(int64_t num_frames) {
  return (num_frames + kSlotChunkFrames - 1) / kSlotChunkFrames;
}

}  // namespace

SlotLedger::SlotLedger(const SlotLedgerOptions& options)
    : options_(options),
      segments_(options.num_segments),
      chunks_(options.num_chunks) {
  CHECK(options.num_layers > 0 && options.max_frames >= 0,
        "num_layers={} max_frames={}", options.num_layers, options.max_frames);
}

SlotLedger::~SlotLedger() {
  CHECK(owners_.empty(), "{} sequences still own slots", owners_.size());
}

void SlotLedger::Split(KvBlockId kv_block) {
  CHECK(split_.emplace(kv_block, 0).second, "KV block={} is split",
        kv_block.value());
  const auto num_layers = static_cast<uint32_t>(options_.num_layers);
  for (uint32_t layer = 0; layer < num_layers; ++layer) {
    free_layer_blocks_.insert(kv_block.value() * num_layers + layer);
  }
}

std::optional<KvBlockId> SlotLedger::Join() {
  const auto num_layers = static_cast<uint32_t>(options_.num_layers);
  for (auto split = split_.rbegin(); split != split_.rend(); ++split) {
    if (split->second > 0) continue;
    const KvBlockId kv_block = split->first;
    for (uint32_t layer = 0; layer < num_layers; ++layer) {
      free_layer_blocks_.erase(kv_block.value() * num_layers + layer);
    }
    split_.erase(kv_block);
    return kv_block;
  }
  return std::nullopt;
}

void SlotLedger::Open(SequenceId sequence) {
  const auto [owner, is_fresh] = owners_.try_emplace(sequence);
  CHECK(is_fresh, "sequence={} is open", sequence.value());
  owner->second.frames.resize(static_cast<size_t>(options_.num_layers));
  owner->second.chunks.resize(static_cast<size_t>(options_.num_layers));
}

void SlotLedger::Close(SequenceId sequence) {
  for (const uint32_t segment : OwnerOf(sequence).segments) {
    if (segment != kNoSlotSegment) segments_.Release(KvBlockId(segment));
  }
  for (int layer = 0; layer < options_.num_layers; ++layer) {
    ResizeLayer(sequence, layer, 0);
  }
  Hold(sequence, 0);
  std::erase_if(added_, [&](const AddedFrames& added) {
    return added.sequence == sequence;
  });
  owners_.erase(sequence);
}

bool SlotLedger::Cover(SequenceId sequence, int64_t first_page,
                       int64_t end_page) {
  CHECK(0 <= first_page && first_page <= end_page, "first={} end={}",
        first_page, end_page);
  std::vector<uint32_t>& segments = OwnerOf(sequence).segments;
  if (first_page == end_page) return true;
  const auto first = static_cast<size_t>(first_page / kSlotSegmentPages);
  const auto end = static_cast<size_t>((end_page - 1) / kSlotSegmentPages) + 1;
  int64_t num_needed = 0;
  for (size_t i = first; i < end; ++i) {
    num_needed += i >= segments.size() || segments[i] == kNoSlotSegment;
  }
  if (num_needed > segments_.num_free()) return false;
  if (segments.size() < end) segments.resize(end, kNoSlotSegment);
  for (size_t i = first; i < end; ++i) {
    if (segments[i] == kNoSlotSegment) segments[i] = segments_.Take()->value();
  }
  return true;
}

void SlotLedger::Uncover(SequenceId sequence, int64_t end_page) {
  std::vector<uint32_t>& segments = OwnerOf(sequence).segments;
  const auto end = std::min(static_cast<size_t>(end_page / kSlotSegmentPages),
                            segments.size());
  for (size_t i = 0; i < end; ++i) {
    if (segments[i] == kNoSlotSegment) continue;
    segments_.Release(KvBlockId(segments[i]));
    segments[i] = kNoSlotSegment;
  }
}

void SlotLedger::CheckAmounts(std::span<const int> num_frames) const {
  CHECK(std::ssize(num_frames) == options_.num_layers, "amounts={} layers={}",
        num_frames.size(), options_.num_layers);
  for (const int count : num_frames) {
    CHECK(count >= 0 && count <= options_.max_frames,
          "num_frames={} max_frames={}", count, options_.max_frames);
  }
}

bool SlotLedger::Resize(SequenceId sequence, std::span<const int> num_frames) {
  CheckAmounts(num_frames);
  const Owner& owner = OwnerOf(sequence);
  int64_t layer_blocks = 0, chunks = 0;
  for (size_t layer = 0; layer < num_frames.size(); ++layer) {
    layer_blocks += num_frames[layer] - std::ssize(owner.frames[layer]);
    chunks += NumChunks(num_frames[layer]) - std::ssize(owner.chunks[layer]);
  }
  if (layer_blocks > num_free_layer_blocks() || chunks > chunks_.num_free())
    return false;
  // What is given back is there to be taken.
  for (const bool grows : {false, true}) {
    for (size_t layer = 0; layer < num_frames.size(); ++layer) {
      const auto count = static_cast<size_t>(num_frames[layer]);
      if (grows != (count > owner.frames[layer].size())) continue;
      ResizeLayer(sequence, static_cast<int>(layer), count);
    }
  }
  return true;
}

bool SlotLedger::Hold(SequenceId sequence, int64_t num_layer_blocks) {
  std::vector<uint32_t>& held = OwnerOf(sequence).held;
  CHECK(num_layer_blocks >= 0, "num_layer_blocks={}", num_layer_blocks);
  if (num_layer_blocks - std::ssize(held) > num_free_layer_blocks())
    return false;
  while (std::ssize(held) > num_layer_blocks) {
    ReturnLayerBlock(held.back());
    held.pop_back();
  }
  while (std::ssize(held) < num_layer_blocks) held.push_back(TakeLayerBlock());
  return true;
}

uint32_t SlotLedger::TakeLayerBlock() {
  const uint32_t layer_block =
      free_layer_blocks_.extract(free_layer_blocks_.begin()).value();
  ++split_.at(
      KvBlockId(layer_block / static_cast<uint32_t>(options_.num_layers)));
  return layer_block;
}

void SlotLedger::ReturnLayerBlock(uint32_t layer_block) {
  --split_.at(
      KvBlockId(layer_block / static_cast<uint32_t>(options_.num_layers)));
  free_layer_blocks_.insert(layer_block);
}

int64_t SlotLedger::KvBlocksToSplit(SequenceId sequence,
                                    std::span<const int> num_frames) const {
  CheckAmounts(num_frames);
  const Owner& owner = OwnerOf(sequence);
  int64_t layer_blocks = -num_free_layer_blocks();
  for (size_t layer = 0; layer < num_frames.size(); ++layer) {
    layer_blocks += num_frames[layer] - std::ssize(owner.frames[layer]);
  }
  const int64_t num_layers = options_.num_layers;
  return std::max<int64_t>(0, (layer_blocks + num_layers - 1) / num_layers);
}

void SlotLedger::ResizeLayer(SequenceId sequence, int layer,
                             size_t num_frames) {
  Owner& owner = OwnerOf(sequence);
  const auto index = static_cast<size_t>(layer);
  std::vector<uint32_t>& frames = owner.frames[index];
  std::vector<uint32_t>& chunks = owner.chunks[index];
  while (frames.size() > num_frames) {
    ReturnLayerBlock(frames.back());
    frames.pop_back();
  }
  const auto num_chunks =
      static_cast<size_t>(NumChunks(static_cast<int64_t>(num_frames)));
  while (chunks.size() > num_chunks) {
    chunks_.Release(KvBlockId(chunks.back()));
    chunks.pop_back();
  }
  while (chunks.size() < num_chunks) chunks.push_back(chunks_.Take()->value());
  // What was added and not yet told of may be gone again.
  std::erase_if(added_, [&](AddedFrames& added) {
    if (added.sequence != sequence || added.layer != layer) return false;
    added.end = std::min(added.end, static_cast<int>(frames.size()));
    return added.first >= added.end;
  });
  if (frames.size() == num_frames) return;
  added_.push_back({.sequence = sequence,
                    .layer = layer,
                    .first = static_cast<int>(frames.size()),
                    .end = static_cast<int>(num_frames)});
  while (frames.size() < num_frames) frames.push_back(TakeLayerBlock());
}

std::vector<AddedFrames> SlotLedger::TakeAdded() {
  return std::exchange(added_, {});
}

std::span<const uint32_t> SlotLedger::frames(SequenceId sequence,
                                             int layer) const {
  return OwnerOf(sequence).frames.at(static_cast<size_t>(layer));
}

std::span<const uint32_t> SlotLedger::chunks(SequenceId sequence,
                                             int layer) const {
  return OwnerOf(sequence).chunks.at(static_cast<size_t>(layer));
}

const SlotLedger::Owner& SlotLedger::OwnerOf(SequenceId sequence) const {
  const auto owner = owners_.find(sequence);
  CHECK(owner != owners_.end(), "sequence={} is not open", sequence.value());
  return owner->second;
}

SlotLedger::Owner& SlotLedger::OwnerOf(SequenceId sequence) {
  return const_cast<Owner&>(std::as_const(*this).OwnerOf(sequence));
}

SlotSnapshot SlotLedger::Snapshot() const {
  SlotSnapshot snapshot;
  snapshot.num_layers = options_.num_layers;
  snapshot.num_segments = options_.num_segments;
  snapshot.num_chunks = options_.num_chunks;
  snapshot.chunk_frames = kSlotChunkFrames;
  snapshot.num_free_segments = segments_.num_free();
  snapshot.num_free_chunks = chunks_.num_free();
  for (const auto& [kv_block, num_used] : split_) {
    snapshot.split.push_back({kv_block, num_used});
  }
  snapshot.free_layer_blocks.assign(free_layer_blocks_.begin(),
                                    free_layer_blocks_.end());
  for (const auto& [sequence, owner] : owners_) {
    snapshot.owners.push_back(
        {sequence, owner.segments, owner.frames, owner.chunks, owner.held});
  }
  return snapshot;
}

}  // namespace winnow
