#include "serve/http_reading.h"

#include <gtest/gtest.h>

#include <boost/asio/buffer.hpp>
#include <string>
#include <string_view>

namespace winnow {
namespace {

// A head that came whole, without the blank line behind it.
struct Head {
  explicit Head(const std::string& lines) {
    boost::system::error_code error;
    const std::string sent = lines + "\r\n\r\n";
    parser.eager(false);
    while (!error && !parser.is_header_done()) {
      parser.put(boost::asio::buffer(sent), error);
    }
    EXPECT_FALSE(error) << error.message();
  }
  HttpParser parser;
};

std::string PathIn(const std::string& target) {
  return HeadOf(Head("GET " + target + " HTTP/1.1").parser).path;
}

int StatusOf(const std::string& lines) {
  const Head head(lines);
  const auto refusal = RefusalOfHead(head.parser);
  return refusal ? refusal->status : 200;
}

TEST(HttpReadingTest, APathIsDecodedOnceAndWithoutItsQuery) {
  EXPECT_EQ(PathIn("/v1/models/org%2Fname"), "/v1/models/org/name");
  EXPECT_EQ(PathIn("/v1/models/org%2fname?a=%2F"), "/v1/models/org/name");
  EXPECT_EQ(PathIn("/%2525"), "/%25");
  EXPECT_EQ(PathIn("/a+b%3F"), "/a+b?");
  EXPECT_EQ(PathIn("/%00%0d%C3"), std::string("/\0\r\xC3", 4));
  // Nobody goes up a folder: there is none.
  EXPECT_EQ(PathIn("/a/%2e%2e/b"), "/a/../b");
}

TEST(HttpReadingTest, AnEscapeThatIsNoneIsRefused) {
  for (const char* path :
       {"/%", "/%2", "/%2/", "/%g0", "/%0g", "/%%20", "/%+1", "/a%2Fb%"}) {
    EXPECT_EQ(DecodedPath(path), std::nullopt) << path;
    EXPECT_EQ(StatusOf("GET " + std::string(path) + " HTTP/1.1"), 400) << path;
    EXPECT_EQ(PathIn(path), path);  // As a log may show it.
  }
  EXPECT_EQ(StatusOf("GET /?%zz HTTP/1.1"), 200);
  EXPECT_EQ(StatusOf("GET /%7E HTTP/1.1"), 200);
}

TEST(HttpReadingTest, ABodyWhoseEndIsAGuessIsRefused) {
  const std::string coding = "\r\nTransfer-Encoding: ";
  EXPECT_EQ(StatusOf("POST / HTTP/1.1" + coding + "chunked"), 200);
  EXPECT_EQ(StatusOf("POST / HTTP/1.0" + coding + "chunked"), 400);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1" + coding + "gzip"), 400);
}

TEST(HttpReadingTest, AClientOfAnOlderVersionIsNotToldToGoOn) {
  const std::string expects = "\r\nExpect: 100-continue\r\nContent-Length: 2";
  EXPECT_TRUE(AwaitsContinue(Head("POST / HTTP/1.1" + expects).parser));
  EXPECT_FALSE(AwaitsContinue(Head("POST / HTTP/1.0" + expects).parser));
  EXPECT_FALSE(
      AwaitsContinue(Head("POST / HTTP/1.1\r\nContent-Length: 2").parser));
}

}  // namespace
}  // namespace winnow
