// Turns bytes into an HttpRequest, without a connection. Exposes the HTTP
// library, so only the server's source and its tests include it.
#ifndef WINNOW_SERVE_HTTP_HTTP_READING_H_
#define WINNOW_SERVE_HTTP_HTTP_READING_H_

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/optional.hpp>
#include <boost/system/error_code.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http/body_bytes.h"
#include "serve/http/http_message.h"
#include "serve/http/http_server.h"

namespace winnow {

// HTTP/1.1 in the library's encoding.
inline constexpr unsigned kVersion11 = 11;

// A message's body in the library's interface. Reading fails with an error of
// its own if the capacity or the memory does not suffice.
struct CountedBody {
  using value_type = BodyBytes;

  class reader {
   public:
    template <bool is_request, typename Fields>
    reader(boost::beast::http::header<is_request, Fields>&, value_type& body)
        : body_(body) {}

    // Ignores the announced length, because those bytes may never come.
    void init(const boost::optional<std::uint64_t>&,
              boost::system::error_code& error) {
      error = {};
    }
    template <typename Buffers>
    size_t put(const Buffers& buffers, boost::system::error_code& error) {
      error = {};
      size_t num_taken = 0;
      for (const boost::asio::const_buffer buffer :
           boost::beast::buffers_range_ref(buffers)) {
        const auto* bytes = static_cast<const char*>(buffer.data());
        error = Append({bytes, buffer.size()});
        if (error) return num_taken;
        num_taken += buffer.size();
      }
      return num_taken;
    }
    void finish(boost::system::error_code& error) { error = {}; }

   private:
    boost::system::error_code Append(std::string_view bytes);

    value_type& body_;
  };
};

using HttpParser = boost::beast::http::request_parser<CountedBody>;

void SetLimits(const HttpLimits& limits, HttpParser& parser);

// The decoded path of a request: "%2F" is "/". None if an escape is not two
// hexadecimal digits.
std::optional<std::string> DecodedPath(std::string_view path);

// The number of empty lines allowed before a request, because a client may end
// a body with one (RFC 9112, 2.2). Further bytes belong to a request.
inline constexpr int kMaxEmptyLines = 4;

struct BeforeRequest {
  size_t num_bytes = 0;    // of empty lines
  bool has_begun = false;  // a request begins behind them
};
// `num_lines_left`: empty lines still allowed, of kMaxEmptyLines; reduced by
// the lines found.
BeforeRequest EmptyLinesIn(std::string_view received, int* num_lines_left);

// The request without its body, as far as it was read. A path is decoded once;
// a path that cannot be decoded is left as it is. A target with an authority,
// in the form sent to a proxy, gives path and host (RFC 9112, 3.2.2).
HttpRequest HeadOf(const HttpParser& parser);

struct HttpRefusal {
  int status = 400;
  std::string message;
};

// The refusal of a head that can be read in more than one way. Its host, its
// body's end or its path would be a guess. A proxy before this server may guess
// differently (RFC 9112, 3.2, 6.1 and 6.3). REQUIRES: the head is read.
std::optional<HttpRefusal> RefusalOfHead(const HttpParser& parser);

// True if the client waits for "100 Continue" before its body. REQUIRES: the
// head is read.
bool AwaitsContinue(const HttpParser& parser);

// The refusal for a failed read; none if the connection ended or was too slow.
std::optional<HttpRefusal> RefusalOf(boost::system::error_code error,
                                     const HttpLimits& limits);

// The refusal of a request that is incomplete after request_time.
HttpRefusal LateRefusal(const HttpLimits& limits);

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_HTTP_READING_H_
