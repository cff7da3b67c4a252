#include "serve/api/entry_fuzz.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "engine/request/request.h"
#include "serve/answer/completion_json.h"
#include "serve/http/http_reading.h"
#include "serve/request/api_error.h"
#include "serve/request/completion_request.h"
#include "serve/request/request_case.h"
#include "text/tokenize/stop_matcher.h"

namespace winnow {
namespace {

using nlohmann::json;

constexpr size_t kMaxMessageBytes = 2000;
constexpr int kVocabSize = 100;
constexpr int kMaxN = 4;

void CheckTold(const Error& error) {
  const std::string& message = error.message;
  CHECK(message.size() <= kMaxMessageBytes, "bytes={}: {}", message.size(),
        message);
  for (const char c : message) {
    CHECK(c >= ' ' && c <= '~', "byte {} in: {}", static_cast<int>(c), message);
  }
  const json told = json::parse(ErrorJson(ApiErrorOf(error)));
  CHECK(told["error"]["message"] == message, "{}", told.dump());
}

void CheckIds(std::string_view name, const std::vector<int32_t>& ids) {
  for (const int32_t id : ids) {
    CHECK(id >= 0 && id < kVocabSize, "{}: {}", name, id);
  }
}

void CheckRequest(const CompletionRequest& request) {
  const bool completes = request.endpoint == Endpoint::kCompletions;
  CHECK((!request.texts.empty() || !request.token_ids.empty()) == completes &&
            (request.texts.empty() || request.token_ids.empty()),
        "texts={} token_ids={}", request.texts.size(),
        request.token_ids.size());
  for (const auto& prompt : request.token_ids) CheckIds("prompt", prompt);
  CheckIds("stop_token_ids", request.stop_token_ids);
  CheckIds("allowed_token_ids", request.allowed_token_ids);
  const Status valid = Validate(request.sampling, kVocabSize);
  CHECK(valid.ok(), "{}", valid.error().message);
  CHECK(request.n >= 1 && request.n <= kMaxN, "n={}", request.n);
  CHECK(request.max_tokens.value_or(1) >= 1, "max_tokens={}",
        *request.max_tokens);
  CHECK(request.min_tokens >= 0, "min_tokens={}", request.min_tokens);
  CHECK(StopMatcher::Create(request.stop).ok(), "stops={}",
        request.stop.size());
  CHECK(request.cache_salt.size() <= kMaxCacheSaltBytes, "bytes={}",
        request.cache_salt.size());
  CHECK(!request.wants_picks || request.stream);
  CHECK(json::parse(request.template_json).is_object(), "{}",
        request.template_json);
  if (!completes) {
    const json messages = json::parse(request.messages_json);
    CHECK(messages.is_array() && !messages.empty(), "{}",
          request.messages_json);
  }
  if (request.endpoint == Endpoint::kResponses) {
    CHECK(json::accept("{" + request.echo_json + "}"), "{}", request.echo_json);
  }
}

void ReadRequest(std::string_view body, Endpoint endpoint) {
  RequestRules rules;
  rules.max_n = kMaxN;
  rules.vocab_size = kVocabSize;
  const auto request = ParseCompletionRequest(body, endpoint, rules);
  if (request.ok()) {
    CheckRequest(*request);
  } else {
    CheckTold(request.error());
  }
}

}  // namespace

void FuzzRequest(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              bytes.size());
  const auto number = static_cast<unsigned char>(text[0]) - unsigned{'0'};
  ReadRequest(text.substr(1), kEndpoints[number % std::size(kEndpoints)]);
}

const HttpLimits& FuzzedLimits() {
  static const HttpLimits limits = {.max_body_bytes = 2048,
                                    .max_header_bytes = 512};
  return limits;
}

namespace {

// What a connection has sent and the parser has not taken yet.
struct Sent {
  std::string_view coming;
  std::string come = {};
  size_t piece_bytes = 1;

  // False where there is no more.
  bool Come() {
    come += coming.substr(0, piece_bytes);
    const bool more = !coming.empty();
    coming.remove_prefix(std::min(piece_bytes, coming.size()));
    return more;
  }
};

void SkipEmptyLines(Sent& sent) {
  int num_lines_left = kMaxEmptyLines;
  bool has_begun = false;
  while (!has_begun) {
    const BeforeRequest before = EmptyLinesIn(sent.come, &num_lines_left);
    sent.come.erase(0, before.num_bytes);
    has_begun = before.has_begun || !sent.Come();
  }
}

// Until `done`, as Beast's own reads do it.
template <typename Done>
boost::system::error_code Put(HttpParser& parser, Sent& sent,
                              const Done& done) {
  namespace http = boost::beast::http;
  boost::system::error_code error;
  while (!done()) {
    error = {};
    const size_t num_taken =
        parser.put(boost::asio::buffer(std::as_const(sent.come)), error);
    sent.come.erase(0, num_taken);
    const bool waits = error == http::error::need_more;
    if (error && !waits) return error;
    if (num_taken > 0 && !waits) continue;
    if (!sent.Come()) return http::error::partial_message;
  }
  return {};
}

bool operator==(const HttpRequest& a, const HttpRequest& b) {
  const auto all = [](const HttpRequest& r) {
    return std::tie(r.method, r.path, r.host, r.authorization, r.api_key,
                    r.request_id, r.body);
  };
  return all(a) == all(b);
}

// Whether the path stands there, its bytes as they are or as escapes.
bool IsSpelledAt(std::string_view sent, std::string_view path) {
  for (const char c : path) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const size_t byte = static_cast<unsigned char>(c);
    const std::string escape = {'%', kDigits[byte / 16], kDigits[byte % 16]};
    const bool is_escape = sent.starts_with('%');
    const size_t num_bytes = is_escape ? escape.size() : 1;
    std::string spelled(sent.substr(0, num_bytes));
    for (char& letter : spelled) {
      if (is_escape && letter >= 'A' && letter <= 'F') letter += 'a' - 'A';
    }
    if (spelled != (is_escape ? escape : std::string(1, c))) return false;
    sent.remove_prefix(num_bytes);
  }
  return true;
}

bool IsSpelledIn(std::string_view sent, std::string_view path) {
  for (size_t at = 0; at <= sent.size(); ++at) {
    if (IsSpelledAt(sent.substr(at), path)) return true;
  }
  return false;
}

void CheckHttpRequest(const HttpRequest& request, std::string_view sent) {
  for (const std::string* text :
       {&request.method, &request.host, &request.authorization,
        &request.api_key, &request.request_id}) {
    const size_t end = text->find_first_of(std::string_view("\r\n\0", 3));
    CHECK(end == std::string::npos, "at {}: {}", end, *text);
  }
  CHECK(sent.find(request.method) != std::string::npos, "{}", request.method);
  CHECK(IsSpelledIn(sent, request.path), "{}", request.path);
  const bool has_escapes = sent.find('%') != std::string::npos;
  CHECK(has_escapes || request.path.find('?') == std::string::npos, "{}",
        request.path);
  CHECK(std::ssize(request.body) <= FuzzedLimits().max_body_bytes, "bytes={}",
        request.body.size());
}

}  // namespace

HttpReading ReadHttp(std::string_view bytes, size_t piece_bytes) {
  Sent sent = {.coming = bytes, .piece_bytes = piece_bytes};
  HttpReading reading;
  const auto refuse = [&](boost::system::error_code error) {
    if (const auto refusal = RefusalOf(error, FuzzedLimits())) {
      CheckTold({ErrorCode::kInvalidArgument, refusal->message});
      reading.refused_with = refusal->status;
    }
  };
  while (true) {
    SkipEmptyLines(sent);
    HttpParser parser;
    SetLimits(FuzzedLimits(), parser);
    parser.eager(false);
    auto error = Put(parser, sent, [&] { return parser.is_header_done(); });
    if (!error) {
      if (const auto refusal = RefusalOfHead(parser)) {
        reading.refused_with = refusal->status;
        return reading;
      }
    }
    parser.eager(true);
    if (!error) error = Put(parser, sent, [&] { return parser.is_done(); });
    if (error) {
      refuse(error);
      return reading;
    }
    HttpRequest request = HeadOf(parser);
    auto body = std::make_shared<BodyBytes>(std::move(parser.get().body()));
    request.body = body->view();
    request.body_bytes = std::move(body);
    CheckHttpRequest(request, bytes);
    reading.requests.push_back(std::move(request));
    if (!parser.get().keep_alive()) return reading;
  }
}

void CheckSame(const HttpReading& reading, const HttpReading& other) {
  CHECK(std::ranges::equal(reading.requests, other.requests,
                           [](const auto& a, const auto& b) { return a == b; }),
        "{} and {} requests", reading.requests.size(), other.requests.size());
}

void FuzzHttp(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              bytes.size());
  const HttpReading whole = ReadHttp(text, text.size() + 1);
  for (const size_t piece_bytes : {1, 7}) {
    const HttpReading pieces = ReadHttp(text, piece_bytes);
    // Near the limit Beast counts a head's lines or all of it, by its pieces.
    if (pieces.refused_with != 431) CheckSame(whole, pieces);
  }
  for (const HttpRequest& request : whole.requests) {
    ReadRequest(request.body,
                kEndpoints[request.path.size() % std::size(kEndpoints)]);
  }
}

}  // namespace winnow
