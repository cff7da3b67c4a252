#include "serve/allowed_origin.h"

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
