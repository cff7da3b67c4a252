#include "serve/allowed_origin.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/json_fields.h"

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
