#include "load/server_url.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(ServerUrlTest, ReadsItsParts) {
  const auto check = [](const char* text, const char* host, int port,
                        const char* path) {
    const Result<ServerUrl> url = ParseServerUrl(text);
    ASSERT_TRUE(url.ok()) << text << ": " << url.error().message;
    EXPECT_EQ(url->host, host) << text;
    EXPECT_EQ(url->port, port) << text;
    EXPECT_EQ(url->path, path) << text;
  };
  check("http://localhost:8000", "localhost", 8000, "");
  check("http://10.0.0.1:1/", "10.0.0.1", 1, "");
  check("http://host", "host", 80, "");
  check("host:9", "host", 9, "");
  check("http://host:65535/a/v1/", "host", 65535, "/a/v1");
  check("http://[::1]:8000/v1", "::1", 8000, "/v1");
  check("http://[fe80::2]", "fe80::2", 80, "");
}

TEST(ServerUrlTest, SaysWhatItMustBe) {
  for (const char* text :
       {"", "http://", "http://:80", "http://host:", "http://host:0",
        "http://host:65536", "http://host:8x", "http://host:-1", "http://a b",
        "http://user@host", "http://host/?q=1", "http://[::1", "http://[::1]80",
        "http://host\r\nX: y"}) {
    const Result<ServerUrl> url = ParseServerUrl(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_EQ(url.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(url.error().message.starts_with("must be http://HOST"))
        << url.error().message;
  }
  EXPECT_NE(ParseServerUrl("https://host").error().message.find("https"),
            std::string::npos);
}

TEST(ServerUrlTest, NamesHostAndPort) {
  EXPECT_EQ(HostAndPort({.host = "a", .port = 1}), "a:1");
  EXPECT_EQ(HostAndPort({.host = "::1", .port = 80}), "[::1]:80");
}

}  // namespace
}  // namespace winnow
