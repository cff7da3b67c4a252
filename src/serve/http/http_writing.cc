#include "serve/http/http_writing.h"

#include <utility>

#include "base/check.h"

namespace winnow {

namespace http = boost::beast::http;

HttpFraming FramingOf(const HttpParser& parser, bool may_stay) {
  const auto& request = parser.get();
  return {.keep_alive = may_stay && request.keep_alive(),
          .has_body = request.method() != http::verb::head,
          .is_1_1 = request.version() >= kVersion11};
}

HttpResponse ResponseOf(HttpPart part, const HttpFraming& framing) {
  CHECK(part.head.has_value());
  const HttpHead& head = *part.head;
  HttpResponse response;
  response.version(kVersion11);
  response.result(static_cast<unsigned>(head.status));
  response.set(http::field::server, "winnow");
  response.set(http::field::content_type, head.content_type);
  for (const auto& [name, value] : head.headers) response.set(name, value);
  // Where its end is not told otherwise, it is the connection's.
  const bool ends_it = head.streams && !framing.is_1_1;
  response.keep_alive(framing.keep_alive && !ends_it);
  if (response.keep_alive() && !framing.is_1_1) {
    response.set(http::field::connection, "keep-alive");
  }
  if (head.streams) {
    response.set(http::field::cache_control, "no-cache");
    if (framing.is_1_1) response.chunked(true);
  } else {
    response.body() = std::move(part.body);
    response.prepare_payload();
  }
  return response;
}

std::string StreamBytesOf(const HttpPart& part, const HttpFraming& framing) {
  if (!framing.is_1_1) return part.body;
  std::string chunks;
  if (!part.body.empty()) {
    chunks = fmt::format("{:x}\r\n{}\r\n", part.body.size(), part.body);
  }
  if (part.last) chunks += "0\r\n\r\n";
  return chunks;
}

}  // namespace winnow
