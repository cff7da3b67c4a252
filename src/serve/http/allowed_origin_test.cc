#include "serve/http/allowed_origin.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

using Texts = std::vector<std::string>;

TEST(AllowedOriginTest, AreGivenOneByOneOrAsVllmHasThem) {
  EXPECT_EQ(*ParseOrigins({}), Texts());
  EXPECT_EQ(*ParseOrigins({"https://a.example", "http://localhost:3000"}),
            (Texts{"https://a.example", "http://localhost:3000"}));
  EXPECT_EQ(*ParseOrigins({R"(["*"])", R"(["https://a.example","null"])"}),
            (Texts{"*", "https://a.example", "null"}));
  EXPECT_EQ(*ParseOrigins({"chrome-extension://abc"}),
            Texts{"chrome-extension://abc"});
  for (const char* bad :
       {"", "a.example", "https://a.example/", "https://", "://a", "[", "[5]",
        "https://*.example", "https://a.example\r\nX: y", "https://a,b"}) {
    const auto parsed = ParseOrigins({bad});
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_TRUE(parsed.error().message.starts_with("--allowed-origins must "));
  }
}

TEST(AllowedOriginTest, IsTheWholeOrigin) {
  const Texts one = {"https://a.example"};
  EXPECT_TRUE(IsAllowedOrigin("https://a.example", one));
  for (const char* other : {"", "http://a.example", "https://a.example:8443",
                            "https://a.example.evil", "https://b.a.example"}) {
    EXPECT_FALSE(IsAllowedOrigin(other, one)) << other;
  }
  EXPECT_FALSE(IsAllowedOrigin("https://a.example", Texts()));
  EXPECT_TRUE(IsAllowedOrigin("null", Texts{"*"}));
  EXPECT_FALSE(IsAllowedOrigin("", Texts{"*"}));
}

bool IsForeign(std::string origin, std::string fetch_site = "",
               std::string host = "localhost:8000",
               const Texts& allowed = {"https://a.example"}) {
  HttpRequest head;
  head.host = std::move(host);
  head.origin = std::move(origin);
  head.fetch_site = std::move(fetch_site);
  return IsForeignPage(head, allowed);
}

TEST(AllowedOriginTest, APageOfAnotherServerIsForeign) {
  for (const char* origin :
       {"http://evil.example", "null", "http://localhost", "file://",
        "http://localhost:3000", "http://localhost:80000", "localhost:8000",
        "chrome-extension://localhost:8000", "https://a.example:8443"}) {
    EXPECT_TRUE(IsForeign(origin)) << origin;
    EXPECT_TRUE(IsForeign(origin, "cross-site")) << origin;
    EXPECT_FALSE(IsForeign(origin, "cross-site", "localhost:8000", {"*"}));
  }
  // Browsers send no Origin with some of what they fetch.
  for (const char* site : {"cross-site", "same-site", "whatever"}) {
    EXPECT_TRUE(IsForeign("", site)) << site;
    EXPECT_FALSE(IsForeign("", site, "localhost:8000", {"*"})) << site;
  }
}

TEST(AllowedOriginTest, ItsOwnPageIsNotAndWhoIsNoneNeither) {
  for (const char* site : {"", "none", "same-origin"}) {
    EXPECT_FALSE(IsForeign("", site)) << site;
  }
  EXPECT_FALSE(IsForeign("http://localhost:8000"));
  EXPECT_FALSE(IsForeign("https://localhost:8000"));
  EXPECT_FALSE(IsForeign("https://a.example", "cross-site"));
  // The port that a scheme has anyway may be left out of either.
  EXPECT_FALSE(IsForeign("http://[::1]", "", "[::1]:80"));
  EXPECT_FALSE(IsForeign("https://b.example", "", "b.example:443"));
  EXPECT_TRUE(IsForeign("https://b.example", "", "b.example:80"));
  EXPECT_TRUE(IsForeign("http://b.example", "", ""));
  // A proxy may have put its own name for the server into Host.
  EXPECT_FALSE(IsForeign("https://b.example", "same-origin"));
}

TEST(AllowedOriginTest, NoAnswerAllowsCredentials) {
  HttpHeaders all = OriginHeaders("https://a.example");
  EXPECT_EQ(all.front().second, "https://a.example");
  for (const auto& header : PreflightHeaders("authorization")) {
    all.push_back(header);
  }
  EXPECT_EQ(all.back().second, "authorization");
  for (const auto& [name, value] : all) {
    EXPECT_NE(name, "Access-Control-Allow-Credentials");
  }
}

}  // namespace
}  // namespace winnow
