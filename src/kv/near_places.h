// NearPlaces: numbers the offloaded pages that keep layer blocks of the dense
// layers on the device.
#ifndef WINNOW_KV_NEAR_PLACES_H_
#define WINNOW_KV_NEAR_PLACES_H_

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace winnow {

// A place is room for the layer blocks of one page. Owns the numbers of one
// sequence and touches no bytes. No two pages share a place. The lowest free
// place goes first, so the number of places never exceeds the greatest number
// of pages at one time.
class NearPlaces {
 public:
  // Gives places to pages [first, end) that have none.
  void Cover(int64_t first_page, int64_t end_page);
  // Takes the places of pages before `end_page`.
  void Uncover(int64_t end_page);

  // The place of a page; nothing if it has none.
  std::optional<int64_t> PlaceOf(int64_t page) const;
  // The number of places ever given, and the same if `num_pages` more were
  // covered.
  int64_t num_places() const { return num_places_; }
  int64_t NumPlacesWith(int64_t num_pages) const;
  // Pages that Cover has added since the last call and that still have places.
  [[nodiscard]] std::vector<int64_t> TakeAdded() {
    return std::exchange(added_, {});
  }

 private:
  static constexpr int64_t kNone = -1;

  std::vector<int64_t> places_;  // by page
  std::set<int64_t> free_;       // among places ever given
  int64_t num_places_ = 0;
  std::vector<int64_t> added_;
};

}  // namespace winnow

#endif  // WINNOW_KV_NEAR_PLACES_H_
