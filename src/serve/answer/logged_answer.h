// LoggedAnswer: an answer with its request's id and CORS headers, and a line in
// the log at its end.
#ifndef WINNOW_SERVE_ANSWER_LOGGED_ANSWER_H_
#define WINNOW_SERVE_ANSWER_LOGGED_ANSWER_H_

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "serve/answer/request_log.h"
#include "serve/http/allowed_origin.h"
#include "serve/http/http_message.h"

namespace winnow {

// Owns the answer; shares the record with the code that fills it in.
class LoggedAnswer : public HttpAnswer {
 public:
  // REQUIRES: log, which may be null, outlives this.
  LoggedAnswer(std::unique_ptr<HttpAnswer> answer,
               std::shared_ptr<RequestRecord> record, RequestLog* log)
      : answer_(std::move(answer)), record_(std::move(record)), log_(log) {}
  ~LoggedAnswer() override {
    answer_.reset();  // Its destructor may still write to the record.
    if (log_ != nullptr) log_->Add(*record_);
  }

  void SetWake(std::function<void()> wake) override {
    answer_->SetWake(std::move(wake));
  }
  HttpPart Take() override {
    HttpPart part = answer_->Take();
    if (part.head) {
      part.head->headers.emplace_back("X-Request-Id", record_->id);
      // Anthropic's clients read this header.
      if (record_->path.starts_with("/v1/messages")) {
        part.head->headers.emplace_back("request-id", record_->id);
      }
      if (!record_->allowed_origin.empty()) {
        for (auto& header : OriginHeaders(record_->allowed_origin)) {
          part.head->headers.push_back(std::move(header));
        }
      }
      record_->status = part.head->status;
      record_->streamed = part.head->streams;
    }
    record_->whole = part.last;
    return part;
  }
  std::optional<std::chrono::steady_clock::time_point> due() const override {
    return answer_->due();
  }

 private:
  std::unique_ptr<HttpAnswer> answer_;
  const std::shared_ptr<RequestRecord> record_;
  RequestLog* const log_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_LOGGED_ANSWER_H_
