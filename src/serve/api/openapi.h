// The server's own description, an OpenAPI 3.1 document.
#ifndef WINNOW_SERVE_API_OPENAPI_H_
#define WINNOW_SERVE_API_OPENAPI_H_

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/request/request_fields.h"

namespace winnow {

// openapi.json: made part of the program by embed_text.py.
extern const std::string_view kOpenApiTemplate;

struct OpenApiOperation {
  std::string_view method;  // "POST"
  std::string_view path;    // "/v1/models/{model}"
};

// What of a server its requests depend on.
struct OpenApiFacts {
  std::string version = {};
  bool needs_key = false;
  std::vector<std::string> model_names = {};
  std::vector<std::string> selects = {};
  int max_n = 1;
  int vocab_size = 1;
};

// What openapi.json says of these operations; of requests the fields that
// request_fields.h has, each with its schema, its reason where it is refused,
// and the limits that the readers know ("@name" in openapi.json).
// REQUIRES: openapi.json describes these operations and no others.
nlohmann::ordered_json OpenApiDocument(
    std::span<const OpenApiOperation> operations, const OpenApiFacts& facts);

// The schema's name of what the route takes: "CompletionRequest".
std::string_view RequestSchemaOf(Endpoint endpoint);

}  // namespace winnow

#endif  // WINNOW_SERVE_API_OPENAPI_H_
