// Entry points of the server's fuzzers. libFuzzer runs them, and
// entry_fuzz_test runs them on the committed corpus.
#ifndef WINNOW_SERVE_API_ENTRY_FUZZ_H_
#define WINNOW_SERVE_API_ENTRY_FUZZ_H_

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "serve/http/http_message.h"
#include "serve/http/http_server.h"

namespace winnow {

// The first byte selects one of five routes ('0': completions, chats,
// responses, messages, counted messages); the rest is a request's body. CHECKs
// that the body is refused in one line that fits a client's JSON, or gives a
// request within its limits.
void FuzzRequest(std::span<const std::byte> bytes);

// Treats the bytes as a client's whole input. CHECKs that the requests read are
// part of the input, within the limits, and independent of the pieces in which
// it comes. Bodies go on as in FuzzRequest.
void FuzzHttp(std::span<const std::byte> bytes);

// The requests that a server reads from one connection.
struct HttpReading {
  std::vector<HttpRequest> requests;
  int refused_with = 0;  // the last status; 0: not refused
};
// Small limits, so that a fuzzer reaches them.
const HttpLimits& FuzzedLimits();
// Reads with the parser alone, without a connection.
HttpReading ReadHttp(std::string_view bytes, size_t piece_bytes);
// CHECKs that both have the same requests. The refusal of an invalid request
// may depend on the pieces: "GET / H1" is shorter than Beast needs to refuse
// it.
void CheckSame(const HttpReading& reading, const HttpReading& other);

}  // namespace winnow

#endif  // WINNOW_SERVE_API_ENTRY_FUZZ_H_
