#include "kv/near_places.h"

#include <algorithm>

#include "base/check.h"

namespace winnow {

void NearPlaces::Cover(int64_t first_page, int64_t end_page) {
  CHECK(0 <= first_page && first_page <= end_page, "first={} end={}",
        first_page, end_page);
  if (std::ssize(places_) < end_page) {
    places_.resize(static_cast<size_t>(end_page), kNone);
  }
  for (int64_t page = first_page; page < end_page; ++page) {
    int64_t& place = places_[static_cast<size_t>(page)];
    if (place != kNone) continue;
    if (free_.empty()) free_.insert(num_places_++);
    place = free_.extract(free_.begin()).value();
    added_.push_back(page);
  }
}

void NearPlaces::Uncover(int64_t end_page) {
  const int64_t end = std::min(end_page, std::ssize(places_));
  for (int64_t page = 0; page < end; ++page) {
    int64_t& place = places_[static_cast<size_t>(page)];
    if (place != kNone) free_.insert(std::exchange(place, kNone));
  }
  std::erase_if(added_, [end](int64_t page) { return page < end; });
}

std::optional<int64_t> NearPlaces::PlaceOf(int64_t page) const {
  if (page >= std::ssize(places_)) return std::nullopt;
  const int64_t place = places_[static_cast<size_t>(page)];
  if (place == kNone) return std::nullopt;
  return place;
}

int64_t NearPlaces::NumPlacesWith(int64_t num_pages) const {
  return num_places_ + std::max<int64_t>(0, num_pages - std::ssize(free_));
}

}  // namespace winnow
