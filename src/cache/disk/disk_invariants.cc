#include "cache/disk/disk_invariants.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace winnow {
namespace {

using Messages = std::vector<std::string>;
using PiecesBySlot = std::map<uint32_t, const DiskPieceSnapshot*>;

void CheckSlots(const DiskSnapshot& snapshot, Messages& broken) {
  std::map<uint32_t, int> num_uses;
  for (const DiskPieceSnapshot& piece : snapshot.pieces) {
    ++num_uses[piece.slot];
  }
  for (const uint32_t slot : snapshot.free) ++num_uses[slot];
  for (const auto& [slot, uses] : num_uses) {
    if (uses == 1 && slot < snapshot.num_used_slots) continue;
    broken.push_back(fmt::format("slot {} of {} has {} uses", slot,
                                 snapshot.num_used_slots, uses));
  }
  if (std::ssize(num_uses) == snapshot.num_used_slots &&
      snapshot.num_used_slots <= snapshot.num_slots) {
    return;
  }
  broken.push_back(fmt::format(
      "{} slots are free or hold a piece, {} were ever used, {} are there",
      num_uses.size(), snapshot.num_used_slots, snapshot.num_slots));
}

bool Names(const std::vector<uint32_t>& children, uint32_t slot) {
  return std::ranges::count(children, slot) == 1;
}

void CheckPiece(const DiskPieceSnapshot& piece, const PiecesBySlot& pieces,
                Messages& broken) {
  if (piece.state != DiskState::kThere && piece.num_pins == 0) {
    broken.push_back(
        fmt::format("slot {} is under way without a pin", piece.slot));
  }
  if (piece.state == DiskState::kLost) return;
  if (!piece.is_found) {
    broken.push_back(
        fmt::format("the piece of slot {} is not found", piece.slot));
  }
  if (!piece.parent) return;
  const auto parent = pieces.find(*piece.parent);
  if (parent == pieces.end() || parent->second->state == DiskState::kLost) {
    broken.push_back(
        fmt::format("the piece of slot {} has no parent", piece.slot));
  } else if (!Names(parent->second->children, piece.slot) ||
             parent->second->number >= piece.number) {
    broken.push_back(fmt::format("the piece of slot {} is no child of slot {}",
                                 piece.slot, *piece.parent));
  }
}

void CheckChildren(const DiskSnapshot& snapshot, Messages& broken) {
  std::map<uint32_t, size_t> of_pages, of_roots;
  int64_t num_pieces = 0;
  for (const DiskPieceSnapshot& piece : snapshot.pieces) {
    num_pieces += piece.state != DiskState::kLost;
    if (piece.parent) ++of_pages[*piece.parent];
    if (piece.root) ++of_roots[*piece.root];
  }
  for (const DiskPieceSnapshot& piece : snapshot.pieces) {
    if (piece.children.size() == of_pages[piece.slot]) continue;
    broken.push_back(fmt::format("slot {} names {} children, has {}",
                                 piece.slot, piece.children.size(),
                                 of_pages[piece.slot]));
  }
  for (const DiskRootSnapshot& root : snapshot.roots) {
    const size_t num_children = of_roots[root.id];
    of_roots.erase(root.id);
    if (root.num_children == num_children && num_children > 0) continue;
    broken.push_back(fmt::format("root {} counts {} children, has {}", root.id,
                                 root.num_children, num_children));
  }
  if (!of_roots.empty()) broken.push_back("a piece has a root that is gone");
  if (num_pieces == snapshot.num_pieces) return;
  broken.push_back(fmt::format("the index counts {} pieces, has {}",
                               snapshot.num_pieces, num_pieces));
}

void CheckEvictable(const DiskSnapshot& snapshot, Messages& broken) {
  std::vector<std::pair<uint64_t, uint32_t>> leaves;
  for (const DiskPieceSnapshot& piece : snapshot.pieces) {
    if (piece.state == DiskState::kThere && piece.num_pins == 0 &&
        piece.children.empty()) {
      leaves.emplace_back(piece.last_use, piece.slot);
    }
  }
  std::ranges::sort(leaves);
  if (std::ranges::equal(leaves, snapshot.evictable, {},
                         &std::pair<uint64_t, uint32_t>::second)) {
    return;
  }
  broken.push_back(fmt::format(
      "{} pieces may be overwritten in their order, {} are leaves at rest",
      snapshot.evictable.size(), leaves.size()));
}

}  // namespace

std::vector<std::string> BrokenInvariants(const DiskSnapshot& snapshot) {
  Messages broken;
  PiecesBySlot pieces;
  for (const DiskPieceSnapshot& piece : snapshot.pieces) {
    pieces[piece.slot] = &piece;
  }
  CheckSlots(snapshot, broken);
  for (const DiskPieceSnapshot& piece : snapshot.pieces) {
    CheckPiece(piece, pieces, broken);
  }
  CheckChildren(snapshot, broken);
  CheckEvictable(snapshot, broken);
  return broken;
}

}  // namespace winnow
