#include "model/weights/gates.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <span>

#include "base/file.h"
#include "model/config/json_fields.h"
#include "model/weights/checkpoint.h"

namespace winnow {
namespace {

// As torch.save writes them: a program of its own, which is not run here.
constexpr std::string_view kPickledFile = "attn_gate_weights.pth";
constexpr std::string_view kGate = "self_attn.attn_gate.attngate_";
constexpr size_t kAlignment = 64;
constexpr std::string_view kBlockTokens = "block_tokens";

// One tensor, and where its numbers go.
struct GateSlot {
  std::string name;
  std::vector<int64_t> stored;  // shape in the file
  View* view = nullptr;
  std::vector<int64_t> shape;  // in memory
  const Checkpoint::Entry* entry = nullptr;

  int64_t num_elements() const {
    int64_t count = 1;
    for (const int64_t size : stored) count *= size;
    return count;
  }
  size_t num_bytes() const {
    const size_t bytes = static_cast<size_t>(num_elements()) * sizeof(float);
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
};

std::vector<GateSlot> SlotsFor(const ModelConfig& config, bool has_norms,
                               std::vector<GateWeights>& layers) {
  const int64_t heads = config.num_kv_heads;
  const int64_t group = config.num_q_heads / config.num_kv_heads;
  const int64_t dim = config.head_dim;
  std::vector<GateSlot> slots;
  layers.resize(static_cast<size_t>(config.num_layers));
  for (int layer = 0; layer < config.num_layers; ++layer) {
    GateWeights& gate = layers[static_cast<size_t>(layer)];
    const auto add = [&](std::string_view name, std::vector<int64_t> stored,
                         View& view, std::vector<int64_t> shape) {
      slots.push_back(
          {fmt::format("{}{}.{}{}.weight", config.family->names->layers, layer,
                       kGate, name),
           std::move(stored), &view, std::move(shape)});
    };
    add("linear_q", {heads, group, dim, dim}, gate.q,
        {heads, group * dim, dim});
    add("linear_k", {heads, 3 * dim, dim}, gate.k, {heads, 3 * dim, dim});
    if (!has_norms) continue;
    add("qnorm", {dim}, gate.q_norm, {dim});
    add("knorm", {dim}, gate.k_norm, {dim});
  }
  return slots;
}

Error WrongGate(const Checkpoint& checkpoint, const GateSlot& slot,
                std::string_view what) {
  const std::filesystem::path& file = slot.entry == nullptr
                                          ? checkpoint.path()
                                          : checkpoint.PathOf(*slot.entry);
  return MakeError(ErrorCode::kCorrupt, "{}: tensor {}: {}", file.string(),
                   slot.name, what);
}

Status Locate(const Checkpoint& checkpoint, GateSlot& slot) {
  const std::string shape = fmt::format("[{}]", fmt::join(slot.stored, ", "));
  slot.entry = checkpoint.Find(slot.name);
  if (slot.entry == nullptr) {
    return WrongGate(checkpoint, slot,
                     fmt::format("must have shape {}, is missing", shape));
  }
  const StoredTensor& tensor = slot.entry->tensor;
  if (tensor.shape != slot.stored) {
    return WrongGate(checkpoint, slot,
                     fmt::format("must have shape {}, has [{}]", shape,
                                 fmt::join(tensor.shape, ", ")));
  }
  if (tensor.dtype != "F32" && tensor.dtype != "BF16" &&
      tensor.dtype != "F16") {
    return WrongGate(checkpoint, slot,
                     fmt::format("dtype must be one of BF16, F16, F32, is {}",
                                 tensor.dtype));
  }
  return Ok{};
}

template <typename T>
void Widen(const std::byte* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    T number;
    std::memcpy(&number, from + static_cast<size_t>(i) * sizeof(T), sizeof(T));
    to[i] = static_cast<float>(number);
  }
}

// A gate that is not finite would choose blocks all the same.
Status Fill(const Checkpoint& checkpoint, const GateSlot& slot) {
  const StoredTensor& tensor = slot.entry->tensor;
  const auto widen = tensor.dtype == "BF16"  ? Widen<BFloat16>
                     : tensor.dtype == "F16" ? Widen<Float16>
                                             : Widen<float>;
  float* numbers = slot.view->As<float>();
  widen(tensor.bytes.data(), slot.num_elements(), numbers);
  const std::span<const float> all(numbers,
                                   static_cast<size_t>(slot.num_elements()));
  const auto wrong = std::ranges::find_if_not(
      all, [](float number) { return std::isfinite(number); });
  if (wrong == all.end()) return Ok{};
  return WrongGate(checkpoint, slot,
                   fmt::format("number {} must be finite, is {}",
                               wrong - all.begin(), *wrong));
}

// What holds the gates. Fails where nothing does.
Result<Checkpoint> Find(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder / kGatesFile, ignored)) {
    return Checkpoint::OpenFile(folder / kGatesFile);
  }
  ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(folder));
  const bool has_gates = std::ranges::any_of(
      checkpoint.entries(),
      [](const auto& entry) { return IsGateTensor(entry.first); });
  if (has_gates) return checkpoint;
  const bool pickled = std::filesystem::exists(folder / kPickledFile, ignored);
  return MakeError(
      ErrorCode::kNotFound,
      "{}: must hold gates, in {} or among the checkpoint's tensors, has "
      "none{}",
      folder.string(), kGatesFile,
      pickled
          ? fmt::format("; {} is not read: scripts/convert_gates of Winnow's "
                        "sources saves its tensors as safetensors",
                        kPickledFile)
          : "");
}

}  // namespace

bool IsGateTensor(std::string_view name) {
  return name.find(kGate) != std::string_view::npos;
}

Result<Gates> Gates::Load(const std::filesystem::path& folder,
                          const ModelConfig& config) {
  if (folder.empty()) {
    return MakeError(ErrorCode::kNotFound,
                     "gates are read from a model's folder: a shape has none");
  }
  if (config.rope.rotary_dim > config.head_dim || config.rope.rotary_dim == 0) {
    return MakeError(ErrorCode::kUnsupported,
                     "gates need a model with RoPE, its rotary_dim is {}",
                     config.rope.rotary_dim);
  }
  RETURN_IF_ERROR(ReadBlockTokens(folder));
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Find(folder));
  const bool has_norms =
      std::ranges::any_of(checkpoint.entries(), [](const auto& entry) {
        return IsGateTensor(entry.first) &&
               entry.first.ends_with("norm.weight");
      });
  Gates gates;
  std::vector<GateSlot> slots = SlotsFor(config, has_norms, gates.layers_);
  size_t num_bytes = 0;
  for (GateSlot& slot : slots) {
    RETURN_IF_ERROR(Locate(checkpoint, slot));
    num_bytes += slot.num_bytes();
  }
  ASSIGN_OR_RETURN(gates.memory_,
                   Buffer::AllocateHost(num_bytes, "gates in float32"));
  std::byte* at = gates.memory_.data();
  for (const GateSlot& slot : slots) {
    *slot.view = slot.shape.size() == 1
                     ? MakeView(at, Dtype::kFloat32, {slot.shape[0]})
                     : MakeView(at, Dtype::kFloat32,
                                {slot.shape[0], slot.shape[1], slot.shape[2]});
    RETURN_IF_ERROR(Fill(checkpoint, slot));
    at += slot.num_bytes();
  }
  return gates;
}

Result<int> Gates::ReadBlockTokens(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kGatesFile;
  std::error_code ignored;
  if (folder.empty() || !std::filesystem::exists(path, ignored)) return 0;
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  ASSIGN_OR_RETURN(const std::string text,
                   ReadSafetensorsMetadata(file.bytes(), path.string(),
                                           std::string(kBlockTokens)));
  if (text.empty()) return 0;
  int tokens = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), tokens);
  if (error == std::errc() && end == text.data() + text.size() && tokens > 0) {
    return tokens;
  }
  return MakeError(ErrorCode::kCorrupt,
                   "{}: metadata {} must be a whole number above 0, is \"{}\"",
                   path.string(), kBlockTokens, Printable(text));
}

Status Gates::Upload(Backend& backend) {
  constexpr std::chrono::minutes kCopyTimeout(5);
  const auto num_bytes = static_cast<int64_t>(memory_.num_bytes());
  ASSIGN_OR_RETURN(
      Buffer memory,
      backend.Allocate(Tier::kDevice, memory_.num_bytes(), "gates"));
  const std::unique_ptr<Queue> queue = backend.MakeQueue();
  backend.Copy(*queue, memory_.At(0, Dtype::kUInt8, {num_bytes}),
               memory.At(0, Dtype::kUInt8, {num_bytes}));
  RETURN_IF_ERROR(backend.Wait(backend.Record(*queue), kCopyTimeout));
  for (GateWeights& layer : layers_) {
    for (View* view : {&layer.q, &layer.k, &layer.q_norm, &layer.k_norm}) {
      if (!view->empty()) {
        view->data = memory.data() + (view->data - memory_.data());
      }
    }
  }
  memory_ = std::move(memory);
  return Ok{};
}

}  // namespace winnow
