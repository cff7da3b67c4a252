// SlotLedger: the owners of slot blocks, and of the table parts that lead to
// them.
#ifndef WINNOW_KV_SLOT_LEDGER_H_
#define WINNOW_KV_SLOT_LEDGER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/kv_block_pool.h"
#include "kv/slot_invariants.h"

namespace winnow {

// Slot blocks whose state stands together in the device's tables.
inline constexpr int kSlotChunkFrames = 64;

struct SlotLedgerOptions {
  int num_layers = 0;
  int64_t num_segments = 0;  // in all
  int64_t num_chunks = 0;    // in all
  int max_frames = 0;        // slot blocks of a sequence in one layer
};

// New slot blocks [first, end) of a sequence in one layer. Their tags must be
// set before a step.
struct AddedFrames {
  SequenceId sequence;
  int layer = 0;
  int first = 0;
  int end = 0;

  friend bool operator==(const AddedFrames&, const AddedFrames&) = default;
};

// Owns the right to use the layer blocks of split KV blocks, segments of slot
// entries and chunks of slot state. Touches no bytes. Used by the engine's
// thread alone. The invariants of BrokenInvariants hold after every call. Any
// layer may use any layer block. The lowest free one goes first, so that the
// last KV blocks come free again.
//
// Pages get segments when they are offloaded, and slot blocks come with their
// chunks. Hence no table grows with a sequence's greatest possible length.
class SlotLedger {
 public:
  explicit SlotLedger(const SlotLedgerOptions& options);
  SlotLedger(const SlotLedger&) = delete;
  SlotLedger& operator=(const SlotLedger&) = delete;
  // CHECKs that every sequence was closed.
  ~SlotLedger();

  // Turns a KV block of the device's pool into layer blocks. REQUIRES: it is
  // not split; its last step has landed.
  void Split(KvBlockId kv_block);
  // Returns the highest KV block without used layer blocks, whole again;
  // nothing if there is none. REQUIRES of the caller: the last step of its
  // former owners has landed.
  std::optional<KvBlockId> Join();

  // REQUIRES of Open: the id is not open. REQUIRES of Close: the id is open,
  // and no step in flight names it.
  void Open(SequenceId sequence);
  void Close(SequenceId sequence);

  // Gives segments to pages [first, end), which may now be offloaded. False if
  // too few segments are free; nothing has changed then.
  bool Cover(SequenceId sequence, int64_t first_page, int64_t end_page);
  // Frees the segments of pages before `end_page`, which are resident.
  // REQUIRES: no step in flight names the sequence.
  void Uncover(SequenceId sequence, int64_t end_page);
  // Gives the sequence num_frames[layer] slot blocks, adding or removing the
  // last ones. False if layer blocks or chunks do not suffice; nothing has
  // changed then. REQUIRES: one value for each layer, at most max_frames.
  bool Resize(SequenceId sequence, std::span<const int> num_frames);
  // Gives the sequence `num_layer_blocks` beside its slot blocks, for offloaded
  // pages of dense layers. Fails as Resize does.
  bool Hold(SequenceId sequence, int64_t num_layer_blocks);
  // The number of further KV blocks to Split before this Resize.
  int64_t KvBlocksToSplit(SequenceId sequence,
                          std::span<const int> num_frames) const;

  // The slot blocks that Resize has added since the last call.
  [[nodiscard]] std::vector<AddedFrames> TakeAdded();

  bool is_open(SequenceId sequence) const { return owners_.contains(sequence); }
  // By number; kNoSlotSegment if all pages of a segment are resident. Empty if
  // all pages of the sequence are.
  std::span<const uint32_t> segments(SequenceId sequence) const {
    return OwnerOf(sequence).segments;
  }
  // Layer blocks, each as KV block * layers + layer of the KV block.
  std::span<const uint32_t> frames(SequenceId sequence, int layer) const;
  std::span<const uint32_t> chunks(SequenceId sequence, int layer) const;
  std::span<const uint32_t> held(SequenceId sequence) const {
    return OwnerOf(sequence).held;
  }

  int64_t num_free_layer_blocks() const {
    return std::ssize(free_layer_blocks_);
  }
  const SlotLedgerOptions& options() const { return options_; }
  SlotSnapshot Snapshot() const;

 private:
  struct Owner {
    std::vector<uint32_t> segments;
    std::vector<std::vector<uint32_t>> frames;  // by layer
    std::vector<std::vector<uint32_t>> chunks;  // by layer
    std::vector<uint32_t> held;  // layer blocks that are not slot blocks
  };

  const Owner& OwnerOf(SequenceId sequence) const;
  Owner& OwnerOf(SequenceId sequence);
  void CheckAmounts(std::span<const int> num_frames) const;
  uint32_t TakeLayerBlock();
  void ReturnLayerBlock(uint32_t layer_block);
  void ResizeLayer(SequenceId sequence, int layer, size_t num_frames);

  const SlotLedgerOptions options_;
  KvBlockPool segments_, chunks_;
  // By KV block, the number of its used layer blocks.
  std::map<KvBlockId, int> split_;
  std::set<uint32_t> free_layer_blocks_;
  std::map<SequenceId, Owner> owners_;  // ordered: snapshots compare
  std::vector<AddedFrames> added_;
};

}  // namespace winnow

#endif  // WINNOW_KV_SLOT_LEDGER_H_
