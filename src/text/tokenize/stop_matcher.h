// Ends a text at the first stop string.
#ifndef WINNOW_TEXT_TOKENIZE_STOP_MATCHER_H_
#define WINNOW_TEXT_TOKENIZE_STOP_MATCHER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace winnow {

inline constexpr size_t kMaxStops = 64;
inline constexpr size_t kMaxStopBytes = 4096;

// The text of one sequence on its way to the reader, searched for stop
// strings. A text ends as soon as it ends with one of them (of several that
// end there, the longest), whatever the pieces it arrives in; it is cut before
// the stop string, or behind it where stops are kept. What may be the beginning
// of one is held back.
//
// Owns its strings and the text held back; one thread at a time. A byte costs
// one step a stop string, amortised. Pieces returned are whole UTF-8 characters
// where those pushed are.
class StopMatcher {
 public:
  // Fails where a string is empty, too long or not UTF-8, or there are too
  // many. No strings at all: text passes unchanged.
  static Result<StopMatcher> Create(std::vector<std::string> stops,
                                    bool keeps_stops = false);

  // Takes the next piece; returns what of the text is now certain to come
  // before any stop string, and that where stops are kept. REQUIRES !matched()
  // and that Finish was not called.
  std::string Push(std::string_view piece);

  // Returns what was held back: no stop string came. REQUIRES !matched().
  std::string Finish();

  // The index in `stops` of the string that ended the text.
  std::optional<size_t> matched() const { return matched_; }

 private:
  // One stop string and how much of it the text now ends with (Knuth, Morris
  // and Pratt 1977).
  struct Stop {
    std::string text;
    std::vector<size_t> borders;  // of each prefix: its longest border
    size_t num_matched = 0;

    explicit Stop(std::string stop);
    // Takes the next byte; true where the whole string has been matched.
    bool Step(char byte);
  };

  StopMatcher(std::vector<Stop> stops, bool keeps_stops)
      : stops_(std::move(stops)), keeps_stops_(keeps_stops) {}

  std::vector<Stop> stops_;
  bool keeps_stops_;
  std::string held_;
  std::optional<size_t> matched_;
};

}  // namespace winnow

#endif  // WINNOW_TEXT_TOKENIZE_STOP_MATCHER_H_
