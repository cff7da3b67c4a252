// Which pages of other servers may ask this one, and read what it answers
// (CORS). No answer ever allows credentials: a key is a header that the
// page knows.
#ifndef WINNOW_SERVE_HTTP_ALLOWED_ORIGIN_H_
#define WINNOW_SERVE_HTTP_ALLOWED_ORIGIN_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/http/http_message.h"

namespace winnow {

// Each of `given` is one origin ("https://chat.example", "*": every one) or, as
// vLLM has it, a JSON list of them. Fails on what no browser would send.
Result<std::vector<std::string>> ParseOrigins(
    const std::vector<std::string>& given);

// Of the value of an Origin header; none at all is not.
bool IsAllowedOrigin(std::string_view origin,
                     std::span<const std::string> allowed);

// Whether a page asks that is neither this server's own nor one of `allowed`.
// Some requests a browser sends for any page without asking first, and only
// keeps the answer from it: what they would do is done by then. No page can set
// the headers that this goes by; who has neither is no page.
bool IsForeignPage(const HttpRequest& head,
                   std::span<const std::string> allowed);

// What each answer to an allowed origin has.
HttpHeaders OriginHeaders(const std::string& origin);
// What the answer has to a browser that asks first (OPTIONS). `asked`: the
// headers that its page wants to send.
HttpHeaders PreflightHeaders(const std::string& asked);

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_ALLOWED_ORIGIN_H_
