#include "serve/http/allowed_origin.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/config/json_fields.h"

namespace winnow {
namespace {

using nlohmann::json;

constexpr std::string_view kEvery = "*";
constexpr std::string_view kFlag = "--allowed-origins";

// SCHEME://HOST[:PORT], and nothing behind it.
bool IsOrigin(std::string_view text) {
  const size_t scheme = text.find("://");
  if (scheme == 0 || scheme == std::string_view::npos) return false;
  const std::string_view host = text.substr(scheme + 3);
  return !host.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return c > ' ' && c < 0x7F;
  }) && host.find_first_of("/?#@*,") == std::string_view::npos;
}

std::string_view WithoutPort(std::string_view host, std::string_view port) {
  if (host.ends_with(port)) host.remove_suffix(port.size());
  return host;
}

// Browsers write both in lower case. Of which scheme it is a server behind a
// proxy does not know.
bool IsOwnOrigin(std::string_view origin, std::string_view host) {
  struct Scheme {
    std::string_view begin, port;
  };
  for (const auto& [begin, port] :
       {Scheme{"http://", ":80"}, Scheme{"https://", ":443"}}) {
    if (!origin.starts_with(begin)) continue;
    origin.remove_prefix(begin.size());
    return WithoutPort(origin, port) == WithoutPort(host, port);
  }
  return false;
}

}  // namespace

Result<std::vector<std::string>> ParseOrigins(
    const std::vector<std::string>& given) {
  std::vector<std::string> origins;
  for (const std::string& text : given) {
    json list = json::array({text});
    if (text.starts_with('[')) {
      list = json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
    }
    const bool are_texts =
        list.is_array() && std::ranges::all_of(list, [](const json& each) {
          return each.is_string() &&
                 (each == kEvery || each == "null" ||
                  IsOrigin(each.get_ref<const std::string&>()));
        });
    if (!are_texts) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{} must be \"*\", an origin without a path "
                       "(\"https://chat.example\") or a JSON list of these, is "
                       "\"{}\"",
                       kFlag, Printable(text));
    }
    for (const json& each : list) origins.push_back(each.get<std::string>());
  }
  return origins;
}

bool IsAllowedOrigin(std::string_view origin,
                     std::span<const std::string> allowed) {
  return !origin.empty() &&
         std::ranges::any_of(allowed, [&](const std::string& each) {
           return each == kEvery || each == origin;
         });
}

bool IsForeignPage(const HttpRequest& head,
                   std::span<const std::string> allowed) {
  // Also where a proxy put another name into Host.
  const bool is_own =
      head.fetch_site == "same-origin" || IsOwnOrigin(head.origin, head.host);
  if (is_own || IsAllowedOrigin(head.origin, allowed)) return false;
  if (!head.origin.empty()) return true;
  // A page of the same site, of another port for one, is another page.
  const bool is_page = !head.fetch_site.empty() && head.fetch_site != "none";
  return is_page && std::ranges::find(allowed, kEvery) == allowed.end();
}

HttpHeaders OriginHeaders(const std::string& origin) {
  return {{"Access-Control-Allow-Origin", origin},
          {"Access-Control-Expose-Headers",
           "X-Request-Id, X-Winnow-Ignored-Fields, Retry-After"},
          {"Vary", "Origin"}};
}

HttpHeaders PreflightHeaders(const std::string& asked) {
  HttpHeaders headers = {{"Access-Control-Allow-Methods", "GET, POST"},
                         {"Access-Control-Max-Age", "600"}};
  if (!asked.empty()) {
    headers.emplace_back("Access-Control-Allow-Headers", asked);
  }
  return headers;
}

}  // namespace winnow
