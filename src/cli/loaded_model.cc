#include "cli/loaded_model.h"

#include <algorithm>
#include <chrono>

#include "backend/cpu/cpu_backend.h"
#include "cli/file_fault.h"
#include "cli/progress.h"

namespace winnow {
namespace {

// The share of free memory that the KV pool may take unasked.
constexpr double kPoolShare = 0.9;

// Whether it is a device's name as docs/design.md section 9 spells them.
bool IsDevice(std::string_view text) {
  constexpr std::string_view kCuda = "cuda";
  if (text == "auto" || text == "cpu" || text == kCuda) return true;
  if (!text.starts_with("cuda:")) return false;
  const std::string_view index = text.substr(kCuda.size() + 1);
  return !index.empty() && std::ranges::all_of(index, [](char digit) {
    return digit >= '0' && digit <= '9';
  });
}

}  // namespace

Result<std::unique_ptr<Backend>> MakeBackend(const EngineFlags& flags) {
  if (!IsDevice(flags.device)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--device must be auto, cpu or cuda[:N], is \"{}\"",
                     flags.device);
  }
  if (flags.device != "auto" && flags.device != "cpu") {
    return MakeError(ErrorCode::kUnsupported,
                     "--device must be auto or cpu in this build, is {}",
                     flags.device);
  }
  return StartCpuBackend({.num_threads = flags.threads});
}

Result<Model> LoadModel(const std::string& folder, const LoadOptions& options) {
  return FromFiles(Model::Load(folder, options));
}

Result<LoadedModel> OpenModel(const EngineFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  LoadedModel loaded;
  ASSIGN_OR_RETURN(loaded.backend, MakeBackend(flags));
  LoadOptions options;
  ASSIGN_OR_RETURN(options.dtype, ParseDtype(flags.dtype));
  Progress progress("loading", !flags.quiet);
  options.progress = [&progress](int64_t done, int64_t total) {
    progress.Update(done, total);
  };
  ASSIGN_OR_RETURN(Model model, LoadModel(flags.model, options));
  loaded.model = std::make_unique<Model>(std::move(model));
  ASSIGN_OR_RETURN(Tokenizer tokenizer,
                   FromFiles(Tokenizer::Load(flags.model)));
  loaded.tokenizer = std::make_unique<Tokenizer>(std::move(tokenizer));
  loaded.load_ms = std::chrono::duration<double, std::milli>(
                       std::chrono::steady_clock::now() - start)
                       .count();
  return loaded;
}

int64_t KvBytesFor(const LoadedModel& loaded, int64_t num_pages) {
  const Model& model = *loaded.model;
  const int64_t wanted =
      num_pages * kPageTokens * KvBytesPerToken(model.config(), model.dtype());
  const auto available = static_cast<int64_t>(
      kPoolShare *
      static_cast<double>(MemoryLeft(loaded.backend->attributes(), model)));
  return std::min(wanted, available);
}

}  // namespace winnow
