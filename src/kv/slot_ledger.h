// Who owns which slots, and which pieces of the tables that lead to them.
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

// Frames whose state stands together, as the device's tables have it.
inline constexpr int kSlotChunkFrames = 64;

struct SlotLedgerOptions {
  int num_layers = 0;
  int64_t num_segments = 0;  // in all
  int64_t num_chunks = 0;    // in all
  int max_frames = 0;        // of a sequence in one layer
};

// Frames that a sequence has been given, whose tags are to be set before a
// step: [first, end) of its frames in a layer.
struct AddedFrames {
  SequenceId sequence;
  int layer = 0;
  int first = 0;
  int end = 0;

  friend bool operator==(const AddedFrames&, const AddedFrames&) = default;
};

// Owns the right to use layer blocks of KV blocks that were split, segments of
// slot entries and chunks of slot state; touches no byte. Used by the engine's
// thread alone. What BrokenInvariants lists of its snapshot holds after every
// call. A layer block serves any layer: what one layer does not need, another
// takes. The lowest free one goes first, so that the last KV blocks come free
// again.
//
// Segments are taken where a page loses its wholeness, chunks with the frames:
// nothing here grows with how long a sequence may become.
class SlotLedger {
 public:
  explicit SlotLedger(const SlotLedgerOptions& options);
  SlotLedger(const SlotLedger&) = delete;
  SlotLedger& operator=(const SlotLedger&) = delete;
  // CHECKs that every sequence was closed.
  ~SlotLedger();

  // A KV block of the device's pool becomes layer blocks. REQUIRES: it is not
  // split; its last step has landed.
  void Split(KvBlockId kv_block);
  // A KV block none of whose layer blocks is used is whole again, the highest;
  // nothing where there is none. REQUIRES of the caller: as Split, of those who
  // had it.
  std::optional<KvBlockId> Join();

  // REQUIRES: the id is not open (is open); no step in flight names it.
  void Open(SequenceId sequence);
  void Close(SequenceId sequence);

  // Pages [first, end) of the sequence may be other than whole from here on:
  // false, and nothing has changed, where segments do not suffice.
  bool Cover(SequenceId sequence, int64_t first_page, int64_t end_page);
  // Its pages before `end_page` are whole: segments that are theirs alone are
  // free. REQUIRES: no step in flight names the sequence.
  void Uncover(SequenceId sequence, int64_t end_page);
  // The sequence has num_frames[layer] frames from here on, the last ones
  // added or taken away: false, and nothing has changed, where layer blocks or
  // chunks do not suffice. REQUIRES: an amount a layer, of at most max_frames.
  bool Resize(SequenceId sequence, std::span<const int> num_frames);
  // The sequence has so many layer blocks from here on besides its frames, in
  // which it keeps pages of layers that it reads whole: as Resize.
  bool Hold(SequenceId sequence, int64_t num_layer_blocks);
  // How many more KV blocks must be split for a Resize.
  int64_t KvBlocksToSplit(SequenceId sequence,
                          std::span<const int> num_frames) const;

  // What Resize has added since the last call.
  [[nodiscard]] std::vector<AddedFrames> TakeAdded();

  bool is_open(SequenceId sequence) const { return owners_.contains(sequence); }
  // By number; kNoSlotSegment where all of a segment's pages are whole. Empty:
  // all of the sequence's.
  std::span<const uint32_t> segments(SequenceId sequence) const {
    return OwnerOf(sequence).segments;
  }
  // Layer blocks: KV block * layers + layer of the KV block.
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
    std::vector<uint32_t> held;  // layer blocks that are no frames
  };

  const Owner& OwnerOf(SequenceId sequence) const;
  Owner& OwnerOf(SequenceId sequence);
  void CheckAmounts(std::span<const int> num_frames) const;
  uint32_t TakeLayerBlock();
  void ReturnLayerBlock(uint32_t layer_block);
  void ResizeLayer(SequenceId sequence, int layer, size_t num_frames);

  const SlotLedgerOptions options_;
  KvBlockPool segments_, chunks_;
  std::map<KvBlockId, int>
      split_;  // with how many of its layer blocks are used
  std::set<uint32_t> free_layer_blocks_;
  std::map<SequenceId, Owner> owners_;  // ordered: snapshots compare
  std::vector<AddedFrames> added_;
};

}  // namespace winnow

#endif  // WINNOW_KV_SLOT_LEDGER_H_
