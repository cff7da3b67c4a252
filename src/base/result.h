// Result<T>: a failure that the caller must handle, as a value.
//
// Three failures, three ways: a bug stops the program (base/check.h), an
// expected failure is a Result, and nothing throws across modules.
#ifndef WINNOW_BASE_RESULT_H_
#define WINNOW_BASE_RESULT_H_

#include <fmt/format.h>

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace winnow {

enum class ErrorCode {
  kInvalidArgument,    // the caller's value is out of range or malformed
  kNotFound,           // a named thing does not exist
  kCorrupt,            // a file breaks the promises of its format
  kUnsupported,        // valid, but this build or version cannot do it
  kResourceExhausted,  // memory, disk or context does not suffice
  kIo,                 // the operating system refused
  kCancelled,          // the user or client asked to stop
};

// Returns the code's name in words: "invalid argument", "not found", ...
std::string_view ErrorCodeName(ErrorCode code);

// One failure. The message is one line: the fault, the limit, the value found.
struct [[nodiscard]] Error {
  ErrorCode code;
  std::string message;
};

template <typename... Args>
Error MakeError(ErrorCode code, fmt::format_string<Args...> format,
                Args&&... args) {
  return {code, fmt::format(format, std::forward<Args>(args)...)};
}

// Either a T or an Error. value() REQUIRES ok(); error() REQUIRES !ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  T& value() & {
    CHECK(ok(), "{}", error().message);
    return std::get<T>(state_);
  }
  const T& value() const& {
    CHECK(ok(), "{}", error().message);
    return std::get<T>(state_);
  }
  T&& value() && {
    CHECK(ok(), "{}", error().message);
    return std::get<T>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    CHECK(!ok());
    return std::get<Error>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

struct Ok {};
// The result of a step that yields only success: return Ok{}.
using Status = Result<Ok>;

}  // namespace winnow

#define WINNOW_CONCAT_INNER(a, b) a##b
#define WINNOW_CONCAT(a, b) WINNOW_CONCAT_INNER(a, b)

// RETURN_IF_ERROR(expression): leaves the function with the error, if any.
#define RETURN_IF_ERROR(expression)                        \
  do {                                                     \
    auto winnow_status = (expression);                     \
    if (!winnow_status.ok()) return winnow_status.error(); \
  } while (false)

// ASSIGN_OR_RETURN(auto x, expression): x = value, or leaves with the error.
#define ASSIGN_OR_RETURN(target, expression)                              \
  ASSIGN_OR_RETURN_INNER(WINNOW_CONCAT(winnow_result_, __LINE__), target, \
                         expression)
#define ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                              \
  if (!result.ok()) return result.error();                 \
  target = std::move(result).value()

#endif  // WINNOW_BASE_RESULT_H_
