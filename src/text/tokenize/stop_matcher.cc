#include "text/tokenize/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/rust_text.h"

namespace winnow {
StopMatcher::Stop::Stop(std::string stop)
    : text(std::move(stop)), borders(text.size(), 0) {
  for (size_t i = 1; i < text.size(); ++i) {
    size_t border = borders[i - 1];
    while (border > 0 && text[i] != text[border]) border = borders[border - 1];
    borders[i] = border + (text[i] == text[border] ? 1 : 0);
  }
}

bool StopMatcher::Stop::Step(char byte) {
  while (num_matched > 0 && text[num_matched] != byte) {
    num_matched = borders[num_matched - 1];
  }
  if (text[num_matched] == byte) ++num_matched;
  return num_matched == text.size();
}

Result<StopMatcher> StopMatcher::Create(std::vector<std::string> stops,
                                        bool keeps_stops) {
  if (stops.size() > kMaxStops) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "stop: must be at most {} strings, are {}", kMaxStops,
                     stops.size());
  }
  std::vector<Stop> matched_stops;
  for (size_t i = 0; i < stops.size(); ++i) {
    const std::string name = fmt::format("stop[{}]", i);
    RETURN_IF_ERROR(internal::CheckUtf8(name, stops[i]));
    if (stops[i].empty() || stops[i].size() > kMaxStopBytes) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{}: must be 1 to {} bytes long, is {}", name,
                       kMaxStopBytes, stops[i].size());
    }
    matched_stops.emplace_back(std::move(stops[i]));
  }
  return StopMatcher(std::move(matched_stops), keeps_stops);
}

std::string StopMatcher::Push(std::string_view piece) {
  CHECK(!matched_, "stop={}", *matched_);
  for (const char byte : piece) {
    held_.push_back(byte);
    for (size_t i = 0; i < stops_.size(); ++i) {
      if (!stops_[i].Step(byte)) continue;
      if (!matched_ || stops_[i].text.size() > stops_[*matched_].text.size()) {
        matched_ = i;
      }
    }
    if (matched_) {
      const size_t stop_bytes = stops_[*matched_].text.size();
      if (!keeps_stops_) held_.resize(held_.size() - stop_bytes);
      return std::exchange(held_, {});
    }
  }
  size_t num_open = 0;
  for (const Stop& stop : stops_) {
    num_open = std::max(num_open, stop.num_matched);
  }
  std::string certain = held_.substr(0, held_.size() - num_open);
  held_.erase(0, certain.size());
  return certain;
}

std::string StopMatcher::Finish() {
  CHECK(!matched_, "stop={}", *matched_);
  return std::exchange(held_, {});
}

}  // namespace winnow
