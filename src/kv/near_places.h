// NearPlaces: which pages that left the device have layer blocks of the layers
// that are read whole.
#ifndef WINNOW_KV_NEAR_PLACES_H_
#define WINNOW_KV_NEAR_PLACES_H_

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace winnow {

// Owns numbers alone, of one sequence: a place is room for the layer blocks of
// one page. No two pages have the same one; the lowest that is free goes first,
// so that there are never more than pages had at once. Touches no byte.
class NearPlaces {
 public:
  // Pages [first, end) have places; those that had none are added.
  void Cover(int64_t first_page, int64_t end_page);
  // Pages before `end_page` have none.
  void Uncover(int64_t end_page);

  // Of a page; nothing where it has none.
  std::optional<int64_t> PlaceOf(int64_t page) const;
  // Places that have been given, and what these are with so many pages more.
  int64_t num_places() const { return num_places_; }
  int64_t NumPlacesWith(int64_t num_pages) const;
  // Pages that Cover has added since the last call, and that still have places.
  [[nodiscard]] std::vector<int64_t> TakeAdded() {
    return std::exchange(added_, {});
  }

 private:
  static constexpr int64_t kNone = -1;

  std::vector<int64_t> places_;  // by page
  std::set<int64_t> free_;       // of the places that have been given
  int64_t num_places_ = 0;
  std::vector<int64_t> added_;
};

}  // namespace winnow

#endif  // WINNOW_KV_NEAR_PLACES_H_
