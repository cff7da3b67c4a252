// How an answer becomes bytes: what of writing HTTP needs no connection. Names
// the library, so the server's source and its tests alone include it.
#ifndef WINNOW_SERVE_HTTP_HTTP_WRITING_H_
#define WINNOW_SERVE_HTTP_HTTP_WRITING_H_

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <string>

#include "serve/http/http_message.h"
#include "serve/http/http_reading.h"

namespace winnow {

// What of a request the form of its answer depends on.
struct HttpFraming {
  bool keep_alive = false;  // its connection may serve another one
  bool has_body = true;     // HEAD asks for GET's answer but for that
  // A client of HTTP/1.0 knows no chunks, and stays only where it was told so.
  bool is_1_1 = true;
};

// As far as the request was read. `may_stay`: as the server would have it.
HttpFraming FramingOf(const HttpParser& parser, bool may_stay);

using HttpResponse =
    boost::beast::http::response<boost::beast::http::string_body>;

// The head of an answer, and its body where that does not stream; keep_alive()
// says whether the connection stays. Of version 1.1 whatever the request is:
// that says what the server knows, and no client of 1.0 reads it otherwise
// (RFC 9110, 2.5). REQUIRES: the part has a head.
HttpResponse ResponseOf(HttpPart part, const HttpFraming& framing);

// What a part adds to a stream.
std::string StreamBytesOf(const HttpPart& part, const HttpFraming& framing);

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_HTTP_WRITING_H_
