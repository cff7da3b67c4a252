// Server-sent events, as their bytes come (HTML Living Standard, 9.2.6).
#ifndef WINNOW_LOAD_SSE_READER_H_
#define WINNOW_LOAD_SSE_READER_H_

#include <string>
#include <string_view>
#include <vector>

namespace winnow {

// One stream. What it finds does not depend on how the bytes are cut. Lines
// end in LF, CR or both; comments, unknown fields and events without data are
// left out, and so is what the end of the stream cuts off.
class SseReader {
 public:
  struct Event {
    std::string name;  // of the field "event"; empty: none
    std::string data;  // lines joined by LF
  };

  // Appends to `*events` those that `bytes` complete.
  void Feed(std::string_view bytes, std::vector<Event>* events);
  // What of an event that is not whole yet is kept.
  size_t pending_bytes() const { return line_.size() + event_.data.size(); }

 private:
  void EndLine(std::vector<Event>* events);

  std::string line_;
  Event event_;
  bool first_line_ = true;  // which may begin with a byte order mark
  bool behind_cr_ = false;  // whose LF, if it comes, is the same line's end
};

}  // namespace winnow

#endif  // WINNOW_LOAD_SSE_READER_H_
