#include "load/sse_reader.h"

#include <utility>

namespace winnow {

void SseReader::Feed(std::string_view bytes, std::vector<Event>* events) {
  while (!bytes.empty()) {
    if (std::exchange(behind_cr_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const size_t end = bytes.find_first_of("\r\n");
    line_ += bytes.substr(0, end);
    if (end == std::string_view::npos) return;
    behind_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    EndLine(events);
  }
}

void SseReader::EndLine(std::vector<Event>* events) {
  std::string_view line = line_;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (std::exchange(first_line_, false) && line.starts_with(kByteOrderMark)) {
    line.remove_prefix(kByteOrderMark.size());
  }
  if (line.empty()) {
    Event event = std::exchange(event_, {});
    if (!event.data.empty()) {
      event.data.pop_back();  // The last line's break.
      events->push_back(std::move(event));
    }
  } else {
    const size_t colon = line.find(':');
    const std::string_view field = line.substr(0, colon);
    std::string_view value =
        colon == std::string_view::npos ? "" : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (field == "data") {
      event_.data += value;
      event_.data += '\n';
    } else if (field == "event") {
      event_.name = value;
    }
  }
  line_.clear();
}

}  // namespace winnow
