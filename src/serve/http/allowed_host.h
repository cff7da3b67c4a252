// Whether a request was sent to a name of this server.
#ifndef WINNOW_SERVE_HTTP_ALLOWED_HOST_H_
#define WINNOW_SERVE_HTTP_ALLOWED_HOST_H_

#include <span>
#include <string>
#include <string_view>

namespace winnow {

// Whether the value of a Host header, with or without a port, is an address,
// "localhost" or a name below it, or one of `names` (in any case). None at all
// is allowed too: browsers always send one. A page from elsewhere whose own
// name was made to point at this machine sends that name ("DNS rebinding"), and
// for its browser this server were then the page's own.
bool IsAllowedHost(std::string_view host, std::span<const std::string> names);

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_ALLOWED_HOST_H_
