#include "serve/http/http_reading.h"

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

int StatusAsSent(const std::string& lines) {
  const Head head(lines);
  const auto refusal = RefusalOfHead(head.parser);
  return refusal ? refusal->status : 200;
}

int StatusOf(const std::string& lines) {
  return StatusAsSent(lines + "\r\nHost: h");
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
  for (const char* other :
       {"gzip", "gzip, chunked", "chunked, chunked", "chunked, gzip",
        "identity", "", "gzip\r\nTransfer-Encoding: chunked"}) {
    EXPECT_EQ(StatusOf("POST / HTTP/1.1" + coding + other), 400) << other;
  }
  EXPECT_EQ(StatusOf("POST / HTTP/1.1" + coding + "Chunked"), 200);
}

TEST(HttpReadingTest, ABodyThatIsEncodedIsRefused) {
  const std::string encoding = "POST / HTTP/1.1\r\nContent-Encoding: ";
  EXPECT_EQ(StatusOf(encoding + "Identity"), 200);
  for (const char* other : {"gzip", "identity, gzip", "br", "",
                            "identity\r\nContent-Encoding: gzip"}) {
    EXPECT_EQ(StatusOf(encoding + other), 415) << other;
  }
}

TEST(HttpReadingTest, WhoIsAskedByWhomIsSaidOnce) {
  const std::string host = "\r\nHost: h", key = "\r\nAuthorization: Bearer k";
  EXPECT_EQ(StatusAsSent("GET / HTTP/1.1" + host), 200);
  EXPECT_EQ(StatusAsSent("GET / HTTP/1.1\r\nHost:"), 200);
  EXPECT_EQ(StatusAsSent("GET / HTTP/1.1"), 400);
  EXPECT_EQ(StatusAsSent("GET http://h/ HTTP/1.1"), 400);
  EXPECT_EQ(StatusAsSent("GET / HTTP/1.0"), 200);
  for (const std::string version : {"1.0", "1.1"}) {
    EXPECT_EQ(StatusAsSent("GET / HTTP/" + version + host + host), 400);
  }
  EXPECT_EQ(StatusAsSent("GET / HTTP/1.1" + host + key), 200);
  EXPECT_EQ(StatusAsSent("GET / HTTP/1.1" + host + key + key), 400);
}

TEST(HttpReadingTest, ATargetMayHaveItsHost) {
  const auto head_of = [](const std::string& target) {
    return HeadOf(Head("GET " + target + " HTTP/1.1\r\nHost: h").parser);
  };
  EXPECT_EQ(head_of("/a").host, "h");
  for (const char* target : {"http://b:80/v1/a%2Fb?c", "HTTPS://b:80/v1/a/b"}) {
    EXPECT_EQ(head_of(target).path, "/v1/a/b") << target;
    EXPECT_EQ(head_of(target).host, "b:80") << target;
  }
  for (const char* target : {"http://b", "http://b?/c"}) {
    EXPECT_EQ(head_of(target).path, "/") << target;
    EXPECT_EQ(head_of(target).host, "b") << target;
    EXPECT_EQ(StatusOf("GET " + std::string(target) + " HTTP/1.1"), 200);
  }
  for (const char* target : {"http:///a", "http://u:p@b/a", "https://"}) {
    EXPECT_EQ(StatusOf("GET " + std::string(target) + " HTTP/1.1"), 400);
  }
  // One of another scheme is a path that nothing is at.
  EXPECT_EQ(head_of("ftp://b/a").path, "ftp://b/a");
}

TEST(HttpReadingTest, EmptyLinesBeforeARequestAreCounted) {
  int left = kMaxEmptyLines;
  BeforeRequest before = EmptyLinesIn("\r\n\r\nGET", &left);
  EXPECT_EQ(before.num_bytes, 4u);
  EXPECT_TRUE(before.has_begun);
  before = EmptyLinesIn("\r\n\r", &left);
  EXPECT_EQ(before.num_bytes, 2u);
  EXPECT_FALSE(before.has_begun);
  EXPECT_FALSE(EmptyLinesIn("", &left).has_begun);
  EXPECT_TRUE(EmptyLinesIn("\rG", &left).has_begun);
  before = EmptyLinesIn("\r\n\r\n", &left);
  EXPECT_EQ(before.num_bytes, 2u);
  EXPECT_TRUE(before.has_begun);  // One too many.
  EXPECT_EQ(left, 0);
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
