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

// openapi.json, which embed_text.py makes part of the program.
extern const std::string_view kOpenApiTemplate;

struct OpenApiOperation {
  std::string_view method;  // "POST"
  std::string_view path;    // "/v1/models/{model}"
};

// The facts about a server on which its requests depend.
struct OpenApiFacts {
  std::string version = {};
  bool needs_key = false;
  std::vector<std::string> model_names = {};
  std::vector<std::string> selects = {};
  int max_n = 1;
  int vocab_size = 1;
};

// The parts of openapi.json for these operations. Request schemas get the
// fields of request_fields.h, each with its schema, the reason if it is
// refused, and the readers' limits ("@name" in openapi.json). REQUIRES:
// openapi.json describes exactly these operations.
nlohmann::ordered_json OpenApiDocument(
    std::span<const OpenApiOperation> operations, const OpenApiFacts& facts);

// The schema's name of the route's request: "CompletionRequest".
std::string_view RequestSchemaOf(Endpoint endpoint);

}  // namespace winnow

#endif  // WINNOW_SERVE_API_OPENAPI_H_
