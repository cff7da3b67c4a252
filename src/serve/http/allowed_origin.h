// CORS: the origins whose pages may send requests here and read the answers. No
// answer ever allows credentials, because a key is a header that the page
// knows.
#ifndef WINNOW_SERVE_HTTP_ALLOWED_ORIGIN_H_
#define WINNOW_SERVE_HTTP_ALLOWED_ORIGIN_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/http/http_message.h"

namespace winnow {

// Each of `given` is one origin ("https://chat.example"; "*" is every origin)
// or, as in vLLM, a JSON list of origins. Fails on a value that no browser
// sends.
Result<std::vector<std::string>> ParseOrigins(
    const std::vector<std::string>& given);

// Checks the value of an Origin header; a missing header is not allowed.
bool IsAllowedOrigin(std::string_view origin,
                     std::span<const std::string> allowed);

// True if a page sends the request and its origin is neither this server nor
// one of `allowed`. A browser sends some requests for any page without
// preflight, and hides only the answer; their effects would then be done. Pages
// cannot set the headers that this reads, and a request without both comes from
// no page.
bool IsForeignPage(const HttpRequest& head,
                   std::span<const std::string> allowed);

// Headers of each answer to an allowed origin.
HttpHeaders OriginHeaders(const std::string& origin);
// Headers of the answer to a preflight request (OPTIONS). `asked`: the headers
// that the page wants to send.
HttpHeaders PreflightHeaders(const std::string& asked);

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_ALLOWED_ORIGIN_H_
