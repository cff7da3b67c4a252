#include "cache/disk/disk_invariants.h"

#include <gtest/gtest.h>

#include <functional>

namespace winnow {
namespace {

// Slots 0 and 1, parent and child; 2 free; 3 lost.
DiskSnapshot Whole() {
  return {.num_slots = 5,
          .num_used_slots = 4,
          .num_pieces = 2,
          .roots = {{.id = 7, .num_children = 1}},
          .pieces = {{.slot = 0,
                      .state = DiskState::kThere,
                      .number = 1,
                      .root = 7,
                      .children = {1},
                      .is_found = true},
                     {.slot = 1,
                      .state = DiskState::kThere,
                      .number = 2,
                      .parent = 0,
                      .is_found = true},
                     {.slot = 3, .state = DiskState::kLost, .num_pins = 1}},
          .free = {2},
          .evictable = {1}};
}

TEST(DiskInvariants, HoldOfWhatIsWhole) {
  EXPECT_EQ(BrokenInvariants(Whole()), std::vector<std::string>());
  EXPECT_EQ(BrokenInvariants(DiskSnapshot()), std::vector<std::string>());
}

TEST(DiskInvariants, EachIsNamedWhereItBreaks) {
  const std::vector<std::pair<std::function<void(DiskSnapshot&)>, std::string>>
      breaks = {
          {[](auto& s) { s.free = {}; }, "slots are free or hold a piece"},
          {[](auto& s) { s.free = {1}; }, "slot 1 of 4 has 2 uses"},
          {[](auto& s) { s.num_slots = 3; }, "3 are there"},
          {[](auto& s) { s.num_pieces = 3; }, "counts 3 pieces, has 2"},
          {[](auto& s) { s.pieces[1].is_found = false; }, "1 is not found"},
          {[](auto& s) { s.pieces[1].parent = 2; }, "1 has no parent"},
          {[](auto& s) { s.pieces[1].number = 1; }, "no child of slot 0"},
          {[](auto& s) { s.pieces[0].children = {}; }, "no child of slot 0"},
          {[](auto& s) { s.pieces[1].children = {3}; }, "names 1 children"},
          {[](auto& s) { s.roots[0].num_children = 2; }, "counts 2 children"},
          {[](auto& s) { s.roots = {}; }, "a root that is gone"},
          {[](auto& s) { s.pieces[2].num_pins = 0; }, "3 is under way"},
          {[](auto& s) { s.evictable = {}; }, "1 are leaves at rest"},
          {[](auto& s) { s.pieces[1].num_pins = 1; }, "0 are leaves at rest"},
      };
  for (const auto& [apply, words] : breaks) {
    DiskSnapshot snapshot = Whole();
    apply(snapshot);
    std::string all;
    for (const std::string& line : BrokenInvariants(snapshot)) all += line;
    EXPECT_NE(all.find(words), std::string::npos) << words << " in: " << all;
  }
}

}  // namespace
}  // namespace winnow
