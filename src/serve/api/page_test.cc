#include "serve/api/page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>

namespace winnow {
namespace {

std::string HeaderOf(std::string_view name) {
  const HttpHeaders headers = PageHeaders();
  const auto found =
      std::ranges::find(headers, name, &HttpHeaders::value_type::first);
  return found == headers.end() ? "" : found->second;
}

TEST(PageTest, ThePolicyLetsInOneScriptAndOneStyleAlone) {
  const std::string policy = HeaderOf("Content-Security-Policy");
  const std::string hash = "'sha256-[A-Za-z0-9+/]{43}='";
  EXPECT_TRUE(std::regex_match(
      policy, std::regex("default-src 'none'; script-src " + hash +
                         "; style-src " + hash +
                         "; connect-src 'self'; img-src data:; base-uri "
                         "'none'; form-action 'none'; frame-ancestors 'none'; "
                         "require-trusted-types-for 'script'; trusted-types "
                         "'none'")))
      << policy;
  EXPECT_NE(kPageScriptHash, kPageStyleHash);
  EXPECT_EQ(HeaderOf("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(HeaderOf("Referrer-Policy"), "no-referrer");
}

TEST(PageTest, ThePageIsWholeAndAsksNobodyElse) {
  const std::string page(kPageHtml);
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
  EXPECT_LT(page.size(), 100u << 10);
  for (const char* never :
       {"://", "src=", "innerHTML", "outerHTML", "insertAdjacentHTML",
        "document.write", "eval(", " style=\"", "onclick=", "localStorage",
        "sessionStorage", "document.cookie"}) {
    EXPECT_EQ(page.find(never), std::string::npos) << never;
  }
}

}  // namespace
}  // namespace winnow
