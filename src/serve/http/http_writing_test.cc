#include "serve/http/http_writing.h"

#include <gtest/gtest.h>

#include <string>

namespace winnow {
namespace {

namespace http = boost::beast::http;

HttpPart Said() {
  return {.head = HttpHead{.status = 404}, .body = "said", .last = true};
}

HttpPart Streamed() {
  return {.head =
              HttpHead{.content_type = "text/event-stream", .streams = true}};
}

TEST(HttpWritingTest, AnAnswerTellsItsLength) {
  for (const bool has_body : {true, false}) {
    const HttpResponse response =
        ResponseOf(Said(), {.keep_alive = true, .has_body = has_body});
    EXPECT_EQ(response.result_int(), 404u);
    EXPECT_EQ(response[http::field::content_length], "4");
    EXPECT_EQ(response.count(http::field::connection), 0u);
  }
}

// It stays where both have said so, and where its answers tell their end.
TEST(HttpWritingTest, AConnectionOfAnOlderClientStaysWhereItIsTold) {
  const HttpFraming old = {.keep_alive = true, .is_1_1 = false};
  EXPECT_EQ(ResponseOf(Said(), old)[http::field::connection], "keep-alive");
  EXPECT_TRUE(ResponseOf(Said(), old).keep_alive());
  const HttpFraming leaving = {.keep_alive = false, .is_1_1 = false};
  EXPECT_EQ(ResponseOf(Said(), leaving)[http::field::connection], "close");
  const HttpResponse stream = ResponseOf(Streamed(), old);
  EXPECT_EQ(stream[http::field::connection], "close");
  EXPECT_FALSE(stream.keep_alive());
  EXPECT_EQ(stream.count(http::field::transfer_encoding), 0u);
}

TEST(HttpWritingTest, AStreamIsInChunksWhereTheClientKnowsThem) {
  const HttpFraming now = {.keep_alive = true};
  const HttpResponse stream = ResponseOf(Streamed(), now);
  EXPECT_TRUE(stream.chunked());
  EXPECT_TRUE(stream.keep_alive());
  const HttpPart middle = {.body = "sixteen letters."};
  EXPECT_EQ(StreamBytesOf(middle, now), "10\r\nsixteen letters.\r\n");
  const HttpPart end = {.body = "end", .last = true};
  EXPECT_EQ(StreamBytesOf(end, now), "3\r\nend\r\n0\r\n\r\n");
  EXPECT_EQ(StreamBytesOf({.last = true}, now), "0\r\n\r\n");
  const HttpFraming old = {.is_1_1 = false};
  EXPECT_EQ(StreamBytesOf(end, old), "end");
  EXPECT_EQ(StreamBytesOf({.last = true}, old), "");
}

}  // namespace
}  // namespace winnow
