// The body of one answer, as it comes.
#ifndef WINNOW_LOAD_ANSWER_READER_H_
#define WINNOW_LOAD_ANSWER_READER_H_

#include <string>
#include <string_view>

#include "load/load_request.h"
#include "load/sse_reader.h"

namespace winnow {

// Fills in one outcome: text, tokens and times, or the fault. Knows nothing of
// connections or clocks. `outcome` outlives it.
class AnswerReader {
 public:
  AnswerReader(AnswerStyle style, bool streams, LoadOutcome* outcome)
      : style_(style), streams_(streams), outcome_(*outcome) {}

  // The status line and headers.
  void TakeHead(int status, std::string_view content_type);
  // Bytes of the body that were there `seconds` after the request was sent.
  void TakeBody(std::string_view bytes, double seconds);
  // The body is whole.
  void End(double seconds);
  // Nothing that may still come changes the outcome.
  bool done() const { return done_; }

 private:
  void TakeEvent(const SseReader::Event& event, double seconds);
  void TakePiece(const Result<AnswerPiece>& piece, double seconds);
  void Fail(Fault fault, std::string text, double seconds);

  const AnswerStyle style_;
  const bool streams_;
  LoadOutcome& outcome_;
  SseReader events_;
  std::string body_;  // of an answer that does not stream, or that is none
  bool reads_events_ = false;
  bool finished_ = false;  // the answer, if not yet the stream
  bool done_ = false;
  double last_token_s_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_LOAD_ANSWER_READER_H_
