// ResponsesStyle: answers as OpenAI's clients read /v1/responses.
#ifndef WINNOW_SERVE_RESPONSES_JSON_H_
#define WINNOW_SERVE_RESPONSES_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "serve/answer_style.h"

namespace winnow {

// One answer; its output is a list of items, messages of text and calls of
// functions, in a stream one after the other, each begun and ended by events.
class ResponsesStyle : public AnswerStyle {
 public:
  // `echo_json`: members of the response, as JSON without braces, that say
  // again what was asked for.
  ResponsesStyle(AnswerIdentity identity, std::string echo_json)
      : identity_(std::move(identity)), echo_json_(std::move(echo_json)) {}

  // REQUIRES: one choice, here and below.
  std::string Whole(const std::vector<ShownChoice>& choices,
                    const AnswerUsage& usage) override;
  std::string Begin(int num_choices, const AnswerUsage& usage) override;
  std::string Piece(const ShownChoice& piece) override;
  std::string End(const AnswerUsage& usage) override;
  std::string Failure(const ApiError& error) override;
  std::string ErrorBody(const ApiError& error) const override;

 private:
  using Json = nlohmann::ordered_json;

  // The members of an event, numbered.
  std::string Event(std::string_view type, Json members);
  std::string ResponseEvent(std::string_view type, std::string_view status,
                            const Json& more);
  // The response as text: with what it echoes.
  std::string Response(std::string_view status, const Json& more) const;
  std::string_view EndStatus() const;
  Json EndMembers(const AnswerUsage& usage) const;
  Json Message(std::string_view status) const;
  Json TextPart() const;
  // Where the text of the open message is: members of its events.
  Json Place() const;
  std::string OpenMessage();
  std::string CloseMessage(std::string_view status);
  std::string TellText(const std::string& text);
  std::string TellCall(const ShownCall& call);
  std::string ItemId(std::string_view kind) const;

  const AnswerIdentity identity_;
  const std::string echo_json_;
  int num_events_ = 0;
  Json output_ = Json::array();  // items that are whole
  bool open_ = false;            // a message, the next item
  std::string text_;             // of it
  Json logprobs_ = Json::array();
  Json untold_logprobs_ = Json::array();  // of tokens behind the last text
  std::string finish_reason_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_RESPONSES_JSON_H_
