#include "cli/command/loaded_model.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "cli/command/device.h"
#include "cli/command/end_tokens.h"
#include "cli/command/file_fault.h"
#include "cli/command/output.h"
#include "cli/command/progress.h"
#include "model/config/json_fields.h"
#include "model/weights/digest_memory.h"
#include "model/weights/weight_digests.h"

namespace winnow {
namespace {

// Fine-tunes add tokens now and then, and leave the model as it was.
void NoteTokensWithoutRows(const Tokenizer& tokenizer, int vocab_size,
                           const std::filesystem::path& folder) {
  if (tokenizer.vocab_size() <= vocab_size) return;
  const int32_t last = tokenizer.vocab_size() - 1;
  PrintError(fmt::format(
      "{}: token \"{}\" has the id {}, the model has rows for ids below {} "
      "(vocab_size): text with such tokens will be refused",
      (folder / "tokenizer.json").string(),
      Printable(tokenizer.TokenText(last).value_or("")), last, vocab_size));
}

// Into the backend's memory, with progress.
Result<Model> LoadWeights(Backend& backend, const EngineFlags& flags,
                          const ModelUse& use) {
  LoadOptions options;
  ASSIGN_OR_RETURN(options.dtype, ParseDtype(flags.dtype));
  Progress hashing("hashing the weights", !flags.quiet);
  std::optional<Progress> loading;
  const LoadProgress watch = [&](int64_t done, int64_t total) {
    if (!loading) {
      hashing.End();
      loading.emplace("loading", !flags.quiet);
    }
    loading->Update(done, total);
  };
  // What goes to a device is touched on its way there.
  if (backend.attributes().device_is_host) options.progress = watch;
  DigestMemory memory(use.has_identity ? DigestMemory::UsersFile()
                                       : std::filesystem::path());
  if (use.has_identity) options.digests = &memory;
  options.digest_progress = [&hashing](int64_t done, int64_t total) {
    hashing.Update(done, total);
  };
  ASSIGN_OR_RETURN(Model model, LoadModel(flags.model, options));
  RETURN_IF_ERROR(model.Upload(backend, watch));
  RETURN_IF_ERROR(ConfirmDigests(model.weights().digests(), memory));
  return model;
}

}  // namespace

Result<std::unique_ptr<Backend>> MakeBackend(const EngineFlags& flags) {
  return StartDevice({.device = flags.device,
                      .threads = flags.threads,
                      .quiet = flags.quiet,
                      .memory_utilization = flags.gpu_memory_utilization});
}

Result<std::unique_ptr<Backend>> MakeCpuBackendFor(EngineFlags flags) {
  if (flags.device.starts_with("cuda")) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--device must be auto or cpu here, is \"{}\"",
                     flags.device);
  }
  if (flags.device == "auto") flags.device = "cpu";
  if (flags.gpu_memory_utilization) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--gpu-memory-utilization is of a GPU's memory; this runs "
                     "on the CPU");
  }
  return MakeBackend(flags);
}

Result<Model> OpenModelOrShape(Backend& backend, const EngineFlags& flags,
                               const std::string& shape) {
  LoadOptions options;
  ASSIGN_OR_RETURN(options.dtype, ParseDtype(flags.dtype));
  if (!shape.empty()) {
    return Model::OfShape(shape, options.dtype.value_or(Dtype::kBFloat16),
                          backend);
  }
  // Touches every page, which what goes to a device does on its way.
  if (backend.attributes().device_is_host) {
    options.progress = [](int64_t, int64_t) {};
  }
  ASSIGN_OR_RETURN(Model model, LoadModel(flags.model, options));
  RETURN_IF_ERROR(model.Upload(backend, {}));
  return model;
}

Result<Model> LoadModel(const std::string& folder, const LoadOptions& options) {
  return FromFiles(Model::Load(folder, options));
}

Status CheckTokenRows(std::span<const int32_t> ids, const Tokenizer& tokenizer,
                      int vocab_size, std::string_view origin) {
  for (const int32_t id : ids) {
    if (id < vocab_size) continue;
    return MakeError(ErrorCode::kCorrupt,
                     "{}: token \"{}\" must have an id below {} (the model's "
                     "vocab_size), has {}",
                     origin, Printable(tokenizer.TokenText(id).value_or("")),
                     vocab_size, id);
  }
  return Ok{};
}

Result<LoadedModel> OpenModel(const EngineFlags& flags, const ModelUse& use) {
  const auto start = std::chrono::steady_clock::now();
  LoadedModel loaded;
  ASSIGN_OR_RETURN(loaded.backend, MakeBackend(flags));
  ASSIGN_OR_RETURN(Model model, LoadWeights(*loaded.backend, flags, use));
  loaded.model = std::make_unique<Model>(std::move(model));
  ASSIGN_OR_RETURN(Tokenizer tokenizer,
                   FromFiles(Tokenizer::Load(flags.model)));
  if (!flags.quiet) {
    NoteTokensWithoutRows(tokenizer, loaded.model->config().vocab_size,
                          flags.model);
    for (const std::string& note :
         TokenNotes(loaded.model->config(), tokenizer)) {
      PrintError(note);
    }
  }
  loaded.tokenizer = std::make_unique<Tokenizer>(std::move(tokenizer));
  loaded.load_ms = std::chrono::duration<double, std::milli>(
                       std::chrono::steady_clock::now() - start)
                       .count();
  return loaded;
}

int64_t KvBytesFor(const LoadedModel& loaded, int64_t num_pages) {
  const Model& model = *loaded.model;
  const int64_t wanted = num_pages * kPageTokens *
                         KvBytesPerToken(model.config(), model.dtypes().kv);
  return std::min(wanted, DefaultKvBytes(loaded.backend->attributes(), model));
}

int64_t ServedKvBytes(const LoadedModel& loaded, int64_t num_pages) {
  const BackendAttributes& attributes = loaded.backend->attributes();
  return attributes.device_is_host ? KvBytesFor(loaded, num_pages)
                                   : DefaultKvBytes(attributes, *loaded.model);
}

}  // namespace winnow
