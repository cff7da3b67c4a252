// What the server's fuzzers do with any bytes. Run by libFuzzer, and on the
// committed corpus by entry_fuzz_test.
#ifndef WINNOW_SERVE_API_ENTRY_FUZZ_H_
#define WINNOW_SERVE_API_ENTRY_FUZZ_H_

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "serve/http/http_message.h"
#include "serve/http/http_server.h"

namespace winnow {

// The first byte names one of five routes ('0': completions, chats, responses,
// messages, counted messages), the others are a request's body: refused in one
// line that a client's JSON can carry, or a request within its limits.
void FuzzRequest(std::span<const std::byte> bytes);

// As what a client sends before it closes its side: what is read of it was
// sent, is within the limits, and is the same in whatever pieces it comes. A
// body goes on as in FuzzRequest.
void FuzzHttp(std::span<const std::byte> bytes);

// What a server is asked, until it hears no more.
struct HttpReading {
  std::vector<HttpRequest> requests;
  int refused_with = 0;  // the last; 0: it was not refused
};
// Small, so that a fuzzer meets them.
const HttpLimits& FuzzedLimits();
// By the parser alone, without a connection.
HttpReading ReadHttp(std::string_view bytes, size_t piece_bytes);
// CHECKs that the same was asked. How, and whether, what is no request is
// refused may depend on its pieces: "GET / H1" is shorter than Beast needs to
// say so.
void CheckSame(const HttpReading& reading, const HttpReading& other);

}  // namespace winnow

#endif  // WINNOW_SERVE_API_ENTRY_FUZZ_H_
