// IsAllowedHost: checks that a request was sent to a name of this server.
#ifndef WINNOW_SERVE_HTTP_ALLOWED_HOST_H_
#define WINNOW_SERVE_HTTP_ALLOWED_HOST_H_

#include <span>
#include <string>
#include <string_view>

namespace winnow {

// True if the value of a Host header, with or without a port, is allowed. That
// is an address, "localhost", a name below it, or one of `names` (in any case).
// A missing header is allowed too, because browsers always send one. This
// defends against DNS rebinding. An attacker's page can point its own name at
// this machine, and its browser would take this server for the page's own. But
// the browser then sends that name.
bool IsAllowedHost(std::string_view host, std::span<const std::string> names);

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_ALLOWED_HOST_H_
