#include "serve/http/allowed_host.h"

#include <gtest/gtest.h>

#include <vector>

namespace winnow {
namespace {

TEST(AllowedHostTest, AddressesAndLocalNamesAreAllowed) {
  for (const char* host :
       {"", "localhost", "LocalHost:8000", "localhost.", "app.localhost:80",
        "127.0.0.1", "127.0.0.1:8000", "192.168.1.7:8000", "[::1]",
        "[::1]:8000", "[fe80::1]:8000"}) {
    EXPECT_TRUE(IsAllowedHost(host, {})) << host;
  }
}

TEST(AllowedHostTest, OtherNamesAreNot) {
  for (const char* host :
       {"evil.example", "evil.example:8000", "localhost.evil.example",
        "127.0.0.1.evil.example", "xlocalhost", "evil-localhost", "1.2.3.x",
        ".", ":8000", "evil.example."}) {
    EXPECT_FALSE(IsAllowedHost(host, {})) << host;
  }
}

TEST(AllowedHostTest, NamesThatAreGivenAre) {
  const std::vector<std::string> names = {"models.example"};
  EXPECT_TRUE(IsAllowedHost("models.example", names));
  EXPECT_TRUE(IsAllowedHost("Models.Example:443", names));
  EXPECT_FALSE(IsAllowedHost("x.models.example", names));
}

}  // namespace
}  // namespace winnow
