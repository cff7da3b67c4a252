// ResponsesStyle: answers in OpenAI's form of /v1/responses.
#ifndef WINNOW_SERVE_ANSWER_RESPONSES_JSON_H_
#define WINNOW_SERVE_ANSWER_RESPONSES_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "serve/answer/answer_style.h"

namespace winnow {

// One answer. Its output is a list of items: thoughts, messages of text and
// function calls. In a stream items come one after another, and events begin
// and end each.
class ResponsesStyle : public AnswerStyle {
 public:
  // `echo_json`: members of the response, as JSON without braces, that repeat
  // the request's values.
  ResponsesStyle(AnswerIdentity identity, std::string echo_json)
      : identity_(std::move(identity)), echo_json_(std::move(echo_json)) {}

  // REQUIRES: one choice, here and below.
  std::string Whole(const std::vector<ShownChoice>& choices,
                    const AnswerUsage& usage) override;
  bool begins_with_cached() const override { return false; }
  std::string Begin(int num_choices, const AnswerUsage& usage) override;
  std::string Piece(const ShownChoice& piece) override;
  std::string End(const AnswerUsage& usage) override;
  std::string Failure(const ApiError& error) override;
  std::string ErrorBody(const ApiError& error) const override;

 private:
  using Json = nlohmann::ordered_json;
  // The kind of the open item, among items with text.
  enum class Open : uint8_t { kNone, kThought, kMessage };

  // An event with the given members and a sequence number.
  std::string Event(std::string_view type, Json members);
  std::string ResponseEvent(std::string_view type, std::string_view status,
                            const Json& more);
  // The response as text, with echo_json_.
  std::string Response(std::string_view status, const Json& more) const;
  std::string_view EndStatus() const;
  Json EndMembers(const AnswerUsage& usage) const;
  // Of the open item: itself, its part, its text's name in events, and the
  // members of events that locate it.
  Json Item(std::string_view status) const;
  Json TextPart() const;
  std::string TextEvent(std::string_view kind) const;
  Json Place() const;
  std::string ItemId() const;
  std::string Begin(Open item);
  std::string Close(std::string_view status);
  std::string TellText(Open item, const std::string& text);
  std::string TellCall(const ShownCall& call);
  std::string IdOf(std::string_view kind) const;

  const AnswerIdentity identity_;
  const std::string echo_json_;
  int num_events_ = 0;
  Json output_ = Json::array();  // completed items
  Open open_ = Open::kNone;      // the next item
  std::string text_;             // of the open item
  Json logprobs_ = Json::array();
  Json untold_logprobs_ = Json::array();  // of tokens behind the last text
  std::string finish_reason_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_RESPONSES_JSON_H_
