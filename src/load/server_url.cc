#include "load/server_url.h"

#include <algorithm>
#include <charconv>

namespace winnow {
namespace {

constexpr std::string_view kHttp = "http://";
constexpr int kHttpPort = 80;
constexpr int kMaxPort = 65535;

Error Malformed(std::string_view text) {
  return MakeError(ErrorCode::kInvalidArgument,
                   "must be http://HOST[:PORT][/PATH], is \"{}\"", text);
}

bool IsPlain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return static_cast<unsigned char>(c) > 0x20 && c != 0x7F;
  });
}

}  // namespace

Result<ServerUrl> ParseServerUrl(std::string_view text) {
  std::string_view rest = text;
  if (rest.starts_with("https://")) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "must be http (https is not spoken: put a proxy "
                     "between), is \"{}\"",
                     text);
  }
  if (rest.starts_with(kHttp)) rest.remove_prefix(kHttp.size());
  ServerUrl url{.host = {}, .port = kHttpPort};
  const size_t slash = std::min(rest.find('/'), rest.size());
  url.path = rest.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  std::string_view host = rest.substr(0, slash);
  std::string_view port;
  const bool bracketed = host.starts_with('[');
  const size_t host_end = bracketed ? host.find(']') : host.find(':');
  if (bracketed && host_end == std::string_view::npos) return Malformed(text);
  if (host_end != std::string_view::npos) {
    port = host.substr(host_end + (bracketed ? 1 : 0));
    host = bracketed ? host.substr(1, host_end - 1) : host.substr(0, host_end);
  }
  url.host = host;
  if (!port.empty()) {
    const char* end = port.data() + port.size();
    const auto [stop, error] = std::from_chars(port.data() + 1, end, url.port);
    const bool whole = error == std::errc() && stop == end;
    if (!port.starts_with(':') || !whole || url.port < 1 ||
        url.port > kMaxPort) {
      return Malformed(text);
    }
  }
  const bool plain = IsPlain(text) && host.find('@') == std::string_view::npos;
  const bool has_query = url.path.find_first_of("?#") != std::string::npos;
  if (host.empty() || !plain || has_query) return Malformed(text);
  return url;
}

std::string HostAndPort(const ServerUrl& url) {
  const bool v6 = url.host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", url.host, url.port)
            : fmt::format("{}:{}", url.host, url.port);
}

}  // namespace winnow
