// Turns an answer into bytes, without a connection. Exposes the HTTP library,
// so only the server's source and its tests include it.
#ifndef WINNOW_SERVE_HTTP_HTTP_WRITING_H_
#define WINNOW_SERVE_HTTP_HTTP_WRITING_H_

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <string>

#include "serve/http/http_message.h"
#include "serve/http/http_reading.h"

namespace winnow {

// The properties of a request on which the form of its answer depends.
struct HttpFraming {
  bool keep_alive = false;  // the connection may serve another request
  // False for HEAD, whose answer is GET's without the body.
  bool has_body = true;
  // A client of HTTP/1.0 does not know chunks, and its connection stays only on
  // its request.
  bool is_1_1 = true;
};

// For the part of the request that was read. `may_stay`: the server allows the
// connection to stay.
HttpFraming FramingOf(const HttpParser& parser, bool may_stay);

using HttpResponse =
    boost::beast::http::response<boost::beast::http::string_body>;

// The head of an answer, and its body unless it streams. keep_alive() tells
// whether the connection stays. The version is always 1.1, because it states
// the server's ability, and clients of 1.0 accept that (RFC 9110, 2.5).
// REQUIRES: the part has a head.
HttpResponse ResponseOf(HttpPart part, const HttpFraming& framing);

// The bytes that a part adds to a stream.
std::string StreamBytesOf(const HttpPart& part, const HttpFraming& framing);

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_HTTP_WRITING_H_
