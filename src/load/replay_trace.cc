#include "load/replay_trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace winnow {
namespace {

using nlohmann::json;

constexpr int64_t kMaxTokens = int64_t{1} << 24;
constexpr double kMaxMs = 1e15;

// One line, and where it stands.
struct Line {
  std::string origin;  // PATH:LINE
  json value;

  Error Unexpected(const char* name, const std::string& expected) const {
    std::string found = "missing";
    if (value.contains(name)) {
      found = value[name]
                  .dump(-1, ' ', false, json::error_handler_t::replace)
                  .substr(0, 60);
    }
    return MakeError(ErrorCode::kCorrupt, "{}: field {}: must be {}, is {}",
                     origin, name, expected, found);
  }

  Result<int64_t> Tokens(const char* name) const {
    const auto found = value.find(name);
    if (found != value.end() && found->is_number_integer()) {
      const auto tokens = found->get<int64_t>();
      if (tokens >= 1 && tokens <= kMaxTokens) return tokens;
    }
    return Unexpected(name, fmt::format("an integer in [1, {}]", kMaxTokens));
  }

  Result<double> Milliseconds(const char* name) const {
    const auto found = value.find(name);
    if (found != value.end() && found->is_number()) {
      const auto ms = found->get<double>();
      if (ms >= 0 && ms <= kMaxMs) return ms;
    }
    return Unexpected(name, "a number of milliseconds from 0");
  }
};

Result<TracedRequest> ReadRequest(const Line& line) {
  if (!line.value.is_object()) {
    return MakeError(ErrorCode::kCorrupt, "{}: must be a JSON object",
                     line.origin);
  }
  TracedRequest request;
  ASSIGN_OR_RETURN(request.due_ms, line.Milliseconds("timestamp"));
  ASSIGN_OR_RETURN(request.prompt_tokens, line.Tokens("input_length"));
  ASSIGN_OR_RETURN(request.output_tokens, line.Tokens("output_length"));
  const auto hashes = line.value.find("hash_ids");
  if (hashes == line.value.end() || hashes->is_null()) return request;
  const auto num_blocks = static_cast<size_t>(
      (request.prompt_tokens + kTraceBlockTokens - 1) / kTraceBlockTokens);
  const bool good = hashes->is_array() && hashes->size() == num_blocks &&
                    std::ranges::all_of(*hashes, [](const json& hash) {
                      return hash.is_number_integer();
                    });
  if (!good) {
    return line.Unexpected("hash_ids",
                           fmt::format("{} integers, one for each {} tokens",
                                       num_blocks, kTraceBlockTokens));
  }
  request.hash_ids = hashes->get<std::vector<int64_t>>();
  return request;
}

}  // namespace

Result<std::vector<TracedRequest>> ReadTrace(std::string_view text,
                                             const std::string& path) {
  std::vector<TracedRequest> requests;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    ASSIGN_OR_RETURN(TracedRequest request,
                     ReadRequest({.origin = fmt::format("{}:{}", path, number),
                                  .value = json::parse(line, nullptr, false)}));
    requests.push_back(std::move(request));
  }
  if (requests.empty()) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: must have at least 1 line, is empty", path);
  }
  std::ranges::stable_sort(requests, {}, &TracedRequest::due_ms);
  const double first_ms = requests.front().due_ms;
  for (TracedRequest& request : requests) request.due_ms -= first_ms;
  return requests;
}

}  // namespace winnow
