// AnswerReader: reads the body of one answer as it arrives.
#ifndef WINNOW_LOAD_ANSWER_READER_H_
#define WINNOW_LOAD_ANSWER_READER_H_

#include <string>
#include <string_view>

#include "load/load_request.h"
#include "load/sse_reader.h"

namespace winnow {

// Fills in one outcome: text, tokens and times, or the fault. Independent of
// connections and clocks. REQUIRES: `outcome` outlives it.
class AnswerReader {
 public:
  AnswerReader(AnswerStyle style, bool streams, LoadOutcome* outcome)
      : style_(style), streams_(streams), outcome_(*outcome) {}

  // The status line and headers.
  void TakeHead(int status, std::string_view content_type);
  // Takes bytes of the body that arrived `seconds` after the request was sent.
  void TakeBody(std::string_view bytes, double seconds);
  // Ends the body.
  void End(double seconds);
  // True if further bytes cannot change the outcome.
  bool done() const { return done_; }

 private:
  void TakeEvent(const SseReader::Event& event, double seconds);
  void TakePiece(const Result<AnswerPiece>& piece, double seconds);
  void Fail(Fault fault, std::string text, double seconds);

  const AnswerStyle style_;
  const bool streams_;
  LoadOutcome& outcome_;
  SseReader events_;
  std::string body_;  // for an answer without a stream, or an error
  bool reads_events_ = false;
  bool finished_ = false;  // the answer, perhaps not the stream
  bool done_ = false;
  double last_token_s_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_LOAD_ANSWER_READER_H_
