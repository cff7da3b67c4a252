// A checkpoint, its tokenizer and the device that runs it, opened together.
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

// Heap-held parts, so that engines may refer to them while this moves.
struct LoadedModel {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;
  double load_ms = 0;
};

// The device that the flags name.
Result<std::unique_ptr<Backend>> MakeBackend(const EngineFlags& flags);
// The CPU, for commands that set figures beside the CPU's roofs; also `auto`
// is the CPU there. Fails with kInvalidArgument where the flags name another.
Result<std::unique_ptr<Backend>> MakeCpuBackendFor(EngineFlags flags);

// The checkpoint of the flags, its weights in the device's memory; or, where
// `shape` is not empty, random weights of that published shape.
Result<Model> OpenModelOrShape(Backend& backend, const EngineFlags& flags,
                               const std::string& shape);

// Loads a checkpoint. What is wrong with its files is never a usage error.
Result<Model> LoadModel(const std::string& folder, const LoadOptions& options);

// Fails where a token of the text that `origin` names has no row in the model:
// its embedding would be read beside the table. The text is of no use to this
// checkpoint, which is the checkpoint's fault.
Status CheckTokenRows(std::span<const int32_t> ids, const Tokenizer& tokenizer,
                      int vocab_size, std::string_view origin);

struct ModelUse {
  // Its files are hashed while they are loaded
  // (model/forward/model_identity.h), or were once and are as they were.
  bool has_identity = false;
};

// Loads with progress on standard error unless --quiet, and with a note where
// the tokenizer has tokens that CheckTokenRows refuses.
Result<LoadedModel> OpenModel(const EngineFlags& flags,
                              const ModelUse& use = {});

// Bytes of KV pool for as many pages as are wanted, if there is that much
// memory.
int64_t KvBytesFor(const LoadedModel& loaded, int64_t num_pages);
// The same for a server: all there is of a device's memory, and of the host's
// no more than the `num_pages` that may ever be used at once.
int64_t ServedKvBytes(const LoadedModel& loaded, int64_t num_pages);

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_LOADED_MODEL_H_
