// StopMatcher: ends a text at the first stop string.
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

// The text of one sequence on its way to the reader, searched for stop strings.
// The text ends as soon as it ends with a stop string; of several, the longest
// counts. The pieces in which it arrives do not matter. The cut is before the
// stop string, or behind it if stops are kept. A possible beginning of a stop
// string is held back.
//
// Owns its strings and the held text; one thread at a time. A byte costs one
// amortised step for each stop string. Results are whole UTF-8 characters if
// the pushed pieces are.
class StopMatcher {
 public:
  // Fails if a string is empty, too long or not UTF-8, or if there are too
  // many. Without strings, text passes unchanged.
  static Result<StopMatcher> Create(std::vector<std::string> stops,
                                    bool keeps_stops = false);

  // Takes the next piece. Returns the text that is now certain to come before
  // any stop string, and the stop string if stops are kept. REQUIRES:
  // !matched(), and Finish was not called.
  std::string Push(std::string_view piece);

  // Ends the text without a stop string and returns the held text. REQUIRES:
  // !matched().
  std::string Finish();

  // The index in `stops` of the string that ended the text.
  std::optional<size_t> matched() const { return matched_; }

 private:
  // One stop string, and how much of it the text now ends with (Knuth, Morris
  // and Pratt 1977).
  struct Stop {
    std::string text;
    std::vector<size_t> borders;  // for each prefix, its longest border
    size_t num_matched = 0;

    explicit Stop(std::string stop);
    // Takes the next byte. True if the whole string has matched.
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
