#include "serve/http/allowed_host.h"

#include <algorithm>
#include <cctype>

#include "base/ascii.h"

namespace winnow {
namespace {

bool IsSame(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, ToLower, ToLower);
}

// No name ends in a label of digits alone, so what does is an address, in any
// of the forms that browsers take (and write out).
bool IsIpv4(std::string_view host) {
  const std::string_view last = host.substr(host.rfind('.') + 1);
  return !last.empty() && std::ranges::all_of(last, [](unsigned char c) {
    return std::isdigit(c) != 0;
  });
}

}  // namespace

bool IsAllowedHost(std::string_view host, std::span<const std::string> names) {
  if (host.empty() || host.starts_with('[')) return true;  // [IPv6]
  host = host.substr(0, host.find(':'));
  if (host.ends_with('.')) host.remove_suffix(1);
  constexpr std::string_view kLocal = "localhost";
  const std::string_view below =
      host.size() > kLocal.size() ? host.substr(host.size() - kLocal.size() - 1)
                                  : std::string_view();
  return IsIpv4(host) || IsSame(host, kLocal) || IsSame(below, ".localhost") ||
         std::ranges::any_of(names, [&](const std::string& name) {
           return IsSame(host, name);
         });
}

}  // namespace winnow
