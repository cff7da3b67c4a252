#include "cli/command/deep_regex.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <string_view>
#include <vector>

namespace winnow {
namespace {

// Reserved, and taken page by page as the stack grows.
constexpr int64_t kStackBytes = int64_t{512} << 20;
// Of stack for each state that one character passes. GCC 12 takes 160.
constexpr int64_t kStateBytes = 1024;
// The library's own limit is a tenth of it.
constexpr int64_t kMaxStates = 1'000'000;

// Work and what it threw.
struct DeepCall {
  const std::function<void()>& work;
  std::exception_ptr thrown;
};

void* RunCall(void* argument) {
  auto* call = static_cast<DeepCall*>(argument);
  try {
    call->work();
  } catch (...) {
    call->thrown = std::current_exception();
  }
  return nullptr;
}

// Runs `work` on a large stack, and waits for it. What the library throws of
// the pattern becomes `what`'s error.
Status RunDeep(std::string_view what, const std::function<void()>& work) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, static_cast<size_t>(kStackBytes));
  DeepCall call = {.work = work, .thrown = nullptr};
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, RunCall, &call);
  pthread_attr_destroy(&attributes);
  if (error != 0) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "a regular expression needs a stack of {} bytes: {}",
                     kStackBytes, std::strerror(error));
  }
  pthread_join(thread, nullptr);
  if (!call.thrown) return Ok{};
  try {
    std::rethrow_exception(call.thrown);
  } catch (const std::regex_error& thrown) {
    // The library's only way to say so.
    return MakeError(ErrorCode::kCorrupt, "{} ({})", what, thrown.what());
  }
}

// The place behind the class that begins at `at`: [a-z], [[:alpha:]].
size_t ClassEnd(std::string_view pattern, size_t at) {
  for (++at; at < pattern.size() && pattern[at] != ']'; ++at) {
    if (pattern[at] == '\\') {
      ++at;
    } else if (pattern[at] == '[' && at + 1 < pattern.size() &&
               std::string_view(":.=").find(pattern[at + 1]) !=
                   std::string_view::npos) {
      const std::string named_end = {pattern[at + 1], ']'};
      at = std::min(pattern.find(named_end, at + 2), pattern.size() - 1) + 1;
    }
  }
  return std::min(at + 1, pattern.size());
}

// The greater number of {3}, {3,} or {3,5}, whose brace is at `at`.
int64_t RepeatsOf(std::string_view pattern, size_t at) {
  int64_t most = 0, number = 0;
  for (++at; at < pattern.size() && pattern[at] != '}'; ++at) {
    number = pattern[at] == ','
                 ? 0
                 : std::min(number * 10 + (pattern[at] - '0'), kMaxStates);
    most = std::max(most, number);
  }
  return most;
}

// At least as many states as the library makes of a pattern that it took: one
// a character, and as many again for each repeat that {n} asks for.
int64_t NumStates(std::string_view pattern) {
  std::vector<int64_t> open = {1};  // of each group around, what is in it
  int64_t last = 0;                 // of what a repeat would repeat
  for (size_t at = 0; at < pattern.size();) {
    const char c = pattern[at];
    size_t end = at + 1;
    if (c == '(') {
      open.push_back(2);
      last = 0;
    } else if (c == ')' && open.size() > 1) {
      last = open.back();
      open.pop_back();
      open.back() += last;
    } else if (c == '{') {
      // A repeat may be repeated: a{3}{4}.
      const int64_t more = last * RepeatsOf(pattern, at);
      open.back() += more;
      last = std::min(last + more, kMaxStates);
      end = std::min(pattern.find('}', at), pattern.size() - 1) + 1;
    } else {
      if (c == '[') end = ClassEnd(pattern, at);
      if (c == '\\') end = std::min(at + 2, pattern.size());
      last = static_cast<int64_t>(end - at);
      open.back() += last;
    }
    open.back() = std::min(open.back(), kMaxStates);
    at = end;
  }
  return open.back();
}

}  // namespace

Result<DeepRegex> DeepRegex::Compile(const std::string& pattern) {
  if (pattern.size() > kMaxPatternChars) {
    return MakeError(ErrorCode::kCorrupt,
                     "must be regular expressions of at most {} characters, "
                     "one has {}",
                     kMaxPatternChars, pattern.size());
  }
  std::regex regex;
  RETURN_IF_ERROR(RunDeep(
      fmt::format("must be regular expressions, \"{}\" is none", pattern),
      [&] { regex.assign(pattern); }));
  return DeepRegex(std::move(regex), NumStates(pattern));
}

int64_t DeepRegex::max_text_chars() const {
  return kStackBytes / (kStateBytes * num_states_) - 1;
}

Result<std::optional<size_t>> DeepRegex::FindEnd(const std::string& text,
                                                 size_t from) const {
  CHECK(from <= text.size(), "from={} size={}", from, text.size());
  if (static_cast<int64_t>(text.size()) > max_text_chars()) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "a text must have at most {} characters to be searched "
                     "for its regular expression, has {}",
                     std::max<int64_t>(max_text_chars(), 0), text.size());
  }
  std::optional<size_t> end;
  const auto search = [&] {
    const auto begin = text.begin() + static_cast<int64_t>(from);
    const auto flags = from == 0 ? std::regex_constants::match_default
                                 : std::regex_constants::match_prev_avail;
    std::smatch found;
    if (std::regex_search(begin, text.end(), found, regex_, flags)) {
      end = static_cast<size_t>(found[0].second - text.begin());
    }
  };
  RETURN_IF_ERROR(RunDeep("a regular expression cannot be searched", search));
  return end;
}

}  // namespace winnow
