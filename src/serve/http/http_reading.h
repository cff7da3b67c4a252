// How bytes become an HttpRequest: what of reading HTTP needs no connection.
// Names the library, so the server's source and its tests alone include it.
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

inline constexpr unsigned kVersion11 = 11;  // of HTTP, as the library has it

// A message's body as the library wants it told. Where there is no room or no
// memory for what has come, reading it ends with an error of its own.
struct CountedBody {
  using value_type = BodyBytes;

  class reader {
   public:
    template <bool is_request, typename Fields>
    reader(boost::beast::http::header<is_request, Fields>&, value_type& body)
        : body_(body) {}

    // What is announced may never come.
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

// What the path of a request means: "%2F" is "/". None where an escape is not
// two hexadecimal digits.
std::optional<std::string> DecodedPath(std::string_view path);

// Empty lines may come before a request, as a client may end a body with one
// (RFC 9112, 2.2); so many, and what comes then is a request's.
inline constexpr int kMaxEmptyLines = 4;

struct BeforeRequest {
  size_t num_bytes = 0;    // that are empty lines
  bool has_begun = false;  // the request, behind them
};
// `num_lines_left`: that may yet come, of kMaxEmptyLines; less those that did.
BeforeRequest EmptyLinesIn(std::string_view received, int* num_lines_left);

// All but the body, as far as it was read. A path is decoded, once; one that
// cannot be is as it came. A target with an authority, as a proxy is asked, is
// its path, and that is the host (RFC 9112, 3.2.2).
HttpRequest HeadOf(const HttpParser& parser);

struct HttpRefusal {
  int status = 400;
  std::string message;
};

// What is said to a head that could be read in more than one way: whose it is,
// where its body ends or what that means would be a guess, and who stands
// before this server may guess otherwise (RFC 9112, 3.2, 6.1 and 6.3), or what
// its path means.
// REQUIRES: the head is read.
std::optional<HttpRefusal> RefusalOfHead(const HttpParser& parser);

// Whether it sends its body once it is told to go on. REQUIRES: as above.
bool AwaitsContinue(const HttpParser& parser);

// What is said to a reading that failed; none where the connection ended, or
// was too slow.
std::optional<HttpRefusal> RefusalOf(boost::system::error_code error,
                                     const HttpLimits& limits);

// Said to who has not sent all of it within request_time.
HttpRefusal LateRefusal(const HttpLimits& limits);

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_HTTP_READING_H_
