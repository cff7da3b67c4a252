// LoadedModel: a checkpoint, its tokenizer and its device, opened together.
#ifndef WINNOW_CLI_COMMAND_LOADED_MODEL_H_
#define WINNOW_CLI_COMMAND_LOADED_MODEL_H_

#include <memory>
#include <span>
#include <string_view>

#include "backend/backend.h"
#include "cli/command/engine_flags.h"
#include "model/forward/model.h"
#include "text/tokenize/tokenizer.h"

namespace winnow {

// The parts are on the heap, so that engines may refer to them while this
// moves.
struct LoadedModel {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;
  double load_ms = 0;
};

// Starts the device that the flags name.
Result<std::unique_ptr<Backend>> MakeBackend(const EngineFlags& flags);
// Starts the CPU, for commands that compare with the CPU's roofs; `auto` is the
// CPU there. Fails with kInvalidArgument if the flags name another device.
Result<std::unique_ptr<Backend>> MakeCpuBackendFor(EngineFlags flags);

// The flags' checkpoint with its weights in device memory. If `shape` is not
// empty, random weights of that published shape.
Result<Model> OpenModelOrShape(Backend& backend, const EngineFlags& flags,
                               const std::string& shape);

// Loads a checkpoint. Errors in its files are never usage errors.
Result<Model> LoadModel(const std::string& folder, const LoadOptions& options);

// Fails if a token of the text has no row in the model's embedding. The text
// cannot be used with this checkpoint, so the error is the checkpoint's.
// `origin` names the text.
Status CheckTokenRows(std::span<const int32_t> ids, const Tokenizer& tokenizer,
                      int vocab_size, std::string_view origin);

struct ModelUse {
  // True: hashes the files while they are loaded
  // (model/forward/model_identity.h), unless they are unchanged since an
  // earlier hash.
  bool has_identity = false;
};

// Loads with progress on standard error unless --quiet, and with a note if the
// tokenizer has tokens that CheckTokenRows refuses.
Result<LoadedModel> OpenModel(const EngineFlags& flags,
                              const ModelUse& use = {});

// The bytes of KV pool for `num_pages`, limited by the available memory.
int64_t KvBytesFor(const LoadedModel& loaded, int64_t num_pages);
// The same for a server: all of a device's memory; of the host's, at most the
// `num_pages` that can be in use at once.
int64_t ServedKvBytes(const LoadedModel& loaded, int64_t num_pages);

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_LOADED_MODEL_H_
