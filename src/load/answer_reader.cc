#include "load/answer_reader.h"

#include <utility>

namespace winnow {
namespace {

constexpr int kStatusOk = 200;
constexpr size_t kMaxBodyBytes = size_t{64} << 20;
constexpr std::string_view kEventStream = "text/event-stream";

}  // namespace

void AnswerReader::Fail(Fault fault, std::string text, double seconds) {
  outcome_.fault = fault;
  outcome_.fault_text = std::move(text);
  outcome_.latency_s = seconds;
  done_ = true;
}

void AnswerReader::TakeHead(int status, std::string_view content_type) {
  outcome_.status = status;
  reads_events_ = streams_ && status == kStatusOk;
  if (reads_events_ && !content_type.starts_with(kEventStream)) {
    Fail(Fault::kBadAnswer,
         fmt::format("must be a stream ({}), is \"{}\"", kEventStream,
                     content_type.substr(0, 100)),
         0);
  }
}

void AnswerReader::TakeBody(std::string_view bytes, double seconds) {
  if (done_) return;
  if (!reads_events_) {
    body_ += bytes;
  } else {
    std::vector<SseReader::Event> events;
    events_.Feed(bytes, &events);
    for (const SseReader::Event& event : events) {
      if (!done_) TakeEvent(event, seconds);
    }
  }
  const size_t pending = reads_events_ ? events_.pending_bytes() : body_.size();
  if (!done_ && pending > kMaxBodyBytes) {
    Fail(Fault::kBadAnswer,
         fmt::format("must be at most {} bytes, is longer", kMaxBodyBytes),
         seconds);
  }
}

void AnswerReader::TakeEvent(const SseReader::Event& event, double seconds) {
  if (!event.data.starts_with("[DONE]")) {
    return TakePiece(ReadAnswerPiece(style_, /*streamed=*/true, event.data),
                     seconds);
  }
  outcome_.latency_s = seconds;
  done_ = true;
}

void AnswerReader::TakePiece(const Result<AnswerPiece>& piece, double seconds) {
  if (!piece.ok()) {
    const bool told = piece.error().code == ErrorCode::kIo;
    return Fail(told ? Fault::kServerError : Fault::kBadAnswer,
                piece.error().message, seconds);
  }
  outcome_.text += piece->text;
  // An answer of no text has its first token where it ends.
  const bool counts =
      piece->has_tokens || (piece->finished && !outcome_.first_token_s);
  if (streams_ && counts) {
    if (outcome_.first_token_s) {
      outcome_.gaps_s.push_back(seconds - last_token_s_);
    } else {
      outcome_.first_token_s = seconds;
    }
    last_token_s_ = seconds;
    if (!outcome_.tokens_told) ++outcome_.completion_tokens;
  }
  finished_ |= piece->finished;
  if (piece->prompt_tokens) outcome_.prompt_tokens = *piece->prompt_tokens;
  if (piece->cached_tokens) outcome_.cached_tokens = *piece->cached_tokens;
  if (piece->completion_tokens) {
    outcome_.completion_tokens = *piece->completion_tokens;
    outcome_.tokens_told = true;
  }
}

void AnswerReader::End(double seconds) {
  if (done_) return;
  outcome_.latency_s = seconds;
  if (outcome_.status != kStatusOk) {
    return Fail(Fault::kStatus, ErrorWords(body_), seconds);
  }
  if (!reads_events_) {
    TakePiece(ReadAnswerPiece(style_, /*streamed=*/false, body_), seconds);
  } else if (!finished_) {
    return Fail(Fault::kBrokenStream, "the stream ended before [DONE]",
                seconds);
  }
  done_ = true;
}

}  // namespace winnow
