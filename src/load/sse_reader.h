// SseReader: parses server-sent events as bytes arrive (HTML Living Standard,
// 9.2.6).
#ifndef WINNOW_LOAD_SSE_READER_H_
#define WINNOW_LOAD_SSE_READER_H_

#include <string>
#include <string_view>
#include <vector>

namespace winnow {

// One stream. The result does not depend on how the bytes are cut. Lines end in
// LF, CR or both. Drops comments, unknown fields, events without data, and an
// incomplete event at the end.
class SseReader {
 public:
  struct Event {
    std::string name;  // the field "event"; empty: none
    std::string data;  // lines joined by LF
  };

  // Appends the events that `bytes` complete to `*events`.
  void Feed(std::string_view bytes, std::vector<Event>* events);
  // Bytes kept of an incomplete event.
  size_t pending_bytes() const { return line_.size() + event_.data.size(); }

 private:
  void EndLine(std::vector<Event>* events);

  std::string line_;
  Event event_;
  bool first_line_ = true;  // may begin with a byte order mark
  bool behind_cr_ = false;  // an LF that follows ends the same line
};

}  // namespace winnow

#endif  // WINNOW_LOAD_SSE_READER_H_
