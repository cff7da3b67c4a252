#include "model/weights/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "model/weights/gates.h"
#include "model/weights/weight_layout.h"

namespace winnow {
namespace {

constexpr size_t kCopyAlignment = 64;
constexpr size_t kPageBytes = 4096;
constexpr size_t kProgressBytes = size_t{16} << 20;

// A place in Weights, and the tensor that belongs there.
struct Slot {
  std::string name;
  std::vector<int64_t> shape;
  View* view = nullptr;
  const Checkpoint::Entry* entry = nullptr;  // where it was found
  Dtype stored = Dtype::kFloat32;
  bool copied = false;

  int64_t num_elements() const {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    return count;
  }
};

// The slots of one layer, under its prefix.
class LayerSlots {
 public:
  LayerSlots(std::string prefix, std::vector<Slot>& slots)
      : prefix_(std::move(prefix)), slots_(slots) {}

  void Norm(std::string_view name, int64_t size, View& view) {
    slots_.push_back(
        {fmt::format("{}{}.weight", prefix_, name), {size}, &view});
  }
  void Matrix(std::string_view name, int64_t rows, int64_t columns,
              View& view) {
    slots_.push_back(
        {fmt::format("{}{}.weight", prefix_, name), {rows, columns}, &view});
  }
  void Linear(std::string_view name, int64_t out, int64_t in,
              WeightMatrix& weight) {
    weight.rows = out;
    weight.columns = in;
    Matrix(name, out, in, weight.codes);
  }
  void Linear(std::string_view name, int64_t out, int64_t in, bool has_bias,
              LinearWeights& weights) {
    Linear(name, out, in, weights.matrix);
    if (!has_bias) return;
    slots_.push_back(
        {fmt::format("{}{}.bias", prefix_, name), {out}, &weights.bias});
  }

 private:
  std::string prefix_;
  std::vector<Slot>& slots_;
};

void AddLayer(const ModelConfig& config, int layer, LayerWeights& weights,
              std::vector<Slot>& slots) {
  const TensorNames& names = *config.family->names;
  LayerSlots add(fmt::format("{}{}.", names.layers, layer), slots);
  const int64_t hidden = config.hidden_size;
  const int64_t intermediate = config.intermediate_size;
  const int64_t q_size = int64_t{config.num_q_heads} * config.head_dim;
  const int64_t kv_size = int64_t{config.num_kv_heads} * config.head_dim;
  add.Norm(names.input_norm, hidden, weights.input_norm);
  weights.qkv = JoinedWeights::OfWidths({q_size, kv_size, kv_size});
  std::span<LinearWeights> qkv = weights.qkv.products;
  add.Linear(names.q, q_size, hidden, config.qkv_bias, qkv[0]);
  add.Linear(names.k, kv_size, hidden, config.qkv_bias, qkv[1]);
  add.Linear(names.v, kv_size, hidden, config.qkv_bias, qkv[2]);
  if (config.family->has_qk_norm) {
    add.Norm(names.q_norm, config.head_dim, weights.q_norm);
    add.Norm(names.k_norm, config.head_dim, weights.k_norm);
  }
  add.Linear(names.o, hidden, q_size, config.o_bias, weights.o);
  add.Norm(names.post_attention_norm, hidden, weights.post_attention_norm);
  weights.gate_up = JoinedWeights::OfWidths({intermediate, intermediate});
  std::span<LinearWeights> gate_up = weights.gate_up.products;
  add.Linear(names.gate, intermediate, hidden, config.mlp_bias, gate_up[0]);
  add.Linear(names.up, intermediate, hidden, config.mlp_bias, gate_up[1]);
  add.Linear(names.down, hidden, intermediate, config.mlp_bias, weights.down);
}

std::vector<Slot> SlotsFor(const ModelConfig& config, Weights& weights) {
  const TensorNames& names = *config.family->names;
  std::vector<Slot> slots;
  LayerSlots add("", slots);
  add.Matrix(names.embedding, config.vocab_size, config.hidden_size,
             weights.embedding);
  weights.layers.resize(static_cast<size_t>(config.num_layers));
  for (int layer = 0; layer < config.num_layers; ++layer) {
    AddLayer(config, layer, weights.layers[static_cast<size_t>(layer)], slots);
  }
  add.Norm(names.final_norm, config.hidden_size, weights.final_norm);
  if (!config.tied_embeddings) {
    add.Linear(names.lm_head, config.vocab_size, config.hidden_size,
               weights.lm_head);
  }
  return slots;
}

Error WrongTensor(const std::filesystem::path& file, std::string_view name,
                  std::string_view what) {
  return MakeError(ErrorCode::kCorrupt, "{}: tensor {}: {}", file.string(),
                   Printable(name), what);
}

// Finds a slot's tensor and checks what it is.
Status Locate(const Checkpoint& checkpoint, Slot& slot) {
  const std::string shape = fmt::format("[{}]", fmt::join(slot.shape, ", "));
  slot.entry = checkpoint.Find(slot.name);
  if (slot.entry == nullptr) {
    return WrongTensor(checkpoint.path(), slot.name,
                       fmt::format("must have shape {}, is missing", shape));
  }
  const StoredTensor& tensor = slot.entry->tensor;
  const std::filesystem::path& file = checkpoint.PathOf(*slot.entry);
  if (tensor.shape != slot.shape) {
    return WrongTensor(file, slot.name,
                       fmt::format("must have shape {}, has [{}]", shape,
                                   fmt::join(tensor.shape, ", ")));
  }
  if (tensor.dtype == "BF16") {
    slot.stored = Dtype::kBFloat16;
  } else if (tensor.dtype == "F16") {
    slot.stored = Dtype::kFloat16;
  } else if (tensor.dtype == "F32") {
    slot.stored = Dtype::kFloat32;
  } else {
    return WrongTensor(file, slot.name,
                       fmt::format("dtype must be one of BF16, F16, F32, is {}",
                                   tensor.dtype));
  }
  return Ok{};
}

// Tensors that checkpoints carry although nothing needs them: the rotary
// frequencies that older transformers saved, a tied model's lm_head, and gates,
// which are read where a selector asks for them (gates.h).
bool IsIgnored(const ModelConfig& config, std::string_view name) {
  const std::string_view lm_head = config.family->names->lm_head;
  return name.ends_with("rotary_emb.inv_freq") || IsGateTensor(name) ||
         (config.tied_embeddings && name.starts_with(lm_head) &&
          name.substr(lm_head.size()) == ".weight");
}

Status CheckNoneBesides(const Checkpoint& checkpoint,
                        const std::vector<Slot>& slots,
                        const ModelConfig& config) {
  std::set<std::string_view> known;
  for (const Slot& slot : slots) known.insert(slot.name);
  for (const auto& [name, entry] : checkpoint.entries()) {
    if (known.contains(name) || IsIgnored(config, name)) continue;
    return WrongTensor(
        checkpoint.PathOf(entry), name,
        fmt::format("must not be there: config.json asks for {} with {} layers",
                    config.family->architecture, config.num_layers));
  }
  return Ok{};
}

// Reads an element that may be unaligned.
template <typename T>
T ElementAt(const std::byte* data, int64_t i) {
  T value;
  std::memcpy(&value, data + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

// Returns false where a finite number has no finite counterpart in To.
template <typename From, typename To>
bool Convert(const std::byte* from, int64_t count, To* to) {
  bool fits = true;
  for (int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(ElementAt<From>(from, i));
    to[i] = To(value);
    fits &= std::isfinite(static_cast<float>(to[i])) || !std::isfinite(value);
  }
  return fits;
}

template <typename To>
bool ConvertTo(const Slot& slot, To* to) {
  const std::byte* from = slot.entry->tensor.bytes.data();
  const int64_t count = slot.num_elements();
  if (slot.stored == kDtypeOf<To>) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(To));
    return true;
  }
  switch (slot.stored) {
    case Dtype::kBFloat16:
      return Convert<BFloat16>(from, count, to);
    case Dtype::kFloat16:
      return Convert<Float16>(from, count, to);
    default:
      return Convert<float>(from, count, to);
  }
}

bool FillCopy(const Slot& slot) {
  switch (slot.view->dtype) {
    case Dtype::kBFloat16:
      return ConvertTo(slot, slot.view->As<BFloat16>());
    case Dtype::kFloat16:
      return ConvertTo(slot, slot.view->As<Float16>());
    default:
      return ConvertTo(slot, slot.view->As<float>());
  }
}

View ViewOf(const Slot& slot, const std::byte* data, Dtype dtype) {
  if (slot.shape.size() == 1) return MakeView(data, dtype, {slot.shape[0]});
  return MakeView(data, dtype, {slot.shape[0], slot.shape[1]});
}

int64_t BytesOf(const Slot& slot, Dtype dtype) {
  return slot.num_elements() * DtypeBytes(dtype);
}

// Bytes of the slot's place among the copies, the gap behind it included.
size_t PaddedBytes(const Slot& slot, Dtype dtype) {
  const auto bytes = static_cast<size_t>(BytesOf(slot, dtype));
  return (bytes + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
}

// Reads one byte of every page, so that all are in memory.
void TouchPages(std::span<const std::byte> bytes) {
  for (size_t i = 0; i < bytes.size(); i += kPageBytes) {
    (void)*static_cast<const volatile std::byte*>(bytes.data() + i);
  }
}

// Fills the copies, and touches the rest where someone watches.
Status ReadIn(const Checkpoint& checkpoint, const std::vector<Slot>& slots,
              const LoadProgress& progress) {
  int64_t total = 0;
  for (const Slot& slot : slots) {
    total += static_cast<int64_t>(slot.entry->tensor.bytes.size());
  }
  int64_t done = 0;
  if (progress) progress(done, total);
  for (const Slot& slot : slots) {
    std::span<const std::byte> bytes = slot.entry->tensor.bytes;
    if (slot.copied && !FillCopy(slot)) {
      return WrongTensor(
          checkpoint.PathOf(*slot.entry), slot.name,
          fmt::format("holds numbers beyond {}", DtypeName(slot.view->dtype)));
    }
    if (!progress) continue;
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min(bytes.size(), kProgressBytes));
      TouchPages(part);
      bytes = bytes.subspan(part.size());
      done += static_cast<int64_t>(part.size());
      progress(done, total);
    }
  }
  return Ok{};
}

// What random weights are copied from: numbers, and ones.
constexpr int64_t kRandomElements = int64_t{4} << 20;

template <typename T>
void FillRandom(const View& numbers, const View& ones) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  for (int64_t i = 0; i < numbers.dim(0); ++i) {
    numbers.As<T>()[i] = T(normal(random));
    ones.As<T>()[i] = T(1.0f);
  }
}

// Copies `from` again and again until `to` is full.
void Repeat(Backend& backend, Queue& queue, const View& from, View to) {
  to = to.Reshape({to.num_elements()});
  for (int64_t first = 0; first < to.dim(0); first += from.dim(0)) {
    const int64_t count = std::min(from.dim(0), to.dim(0) - first);
    backend.Copy(queue, from.Slice(0, count), to.Slice(first, count));
  }
}

}  // namespace

Result<Weights> Weights::Random(const ModelConfig& config, Dtype dtype,
                                Backend& backend) {
  Weights weights;
  const std::vector<Slot> slots = SlotsFor(config, weights);
  for (const Slot& slot : slots) *slot.view = ViewOf(slot, nullptr, dtype);
  const WeightLayout layout = WeightLayout::Of(weights, config.tied_embeddings);
  ASSIGN_OR_RETURN(
      weights.device_memory_,
      backend.Allocate(Tier::kDevice, layout.num_bytes, "random weights"));
  for (const auto& [view, offset] : layout.places) {
    view->data = weights.device_memory_.data() + offset;
  }
  const auto piece_bytes =
      static_cast<size_t>(kRandomElements * DtypeBytes(dtype));
  ASSIGN_OR_RETURN(const Buffer pieces,
                   backend.Allocate(Tier::kHost, 2 * piece_bytes,
                                    "what random weights are copied from"));
  const View numbers = pieces.At(0, dtype, {kRandomElements});
  const View ones = pieces.At(piece_bytes, dtype, {kRandomElements});
  switch (dtype) {
    case Dtype::kBFloat16:
      FillRandom<BFloat16>(numbers, ones);
      break;
    case Dtype::kFloat16:
      FillRandom<Float16>(numbers, ones);
      break;
    default:
      FillRandom<float>(numbers, ones);
  }
  const std::unique_ptr<Queue> queue = backend.MakeQueue();
  for (const Slot& slot : slots) {
    weights.num_parameters_ += slot.num_elements();
    weights.copied_bytes_ += BytesOf(slot, dtype);
    const bool is_norm = slot.name.ends_with("norm.weight");
    Repeat(backend, *queue, is_norm ? ones : numbers, *slot.view);
  }
  JoinLayers(weights);
  if (config.tied_embeddings) weights.lm_head = DenseMatrix(weights.embedding);
  RETURN_IF_ERROR(
      backend.Wait(backend.Record(*queue), std::chrono::minutes(5)));
  return weights;
}

Result<Weights> Weights::Load(const std::filesystem::path& folder,
                              const ModelConfig& config,
                              const WeightOptions& options) {
  Weights weights;
  ASSIGN_OR_RETURN(weights.checkpoint_, Checkpoint::Open(folder));
  const Checkpoint& checkpoint = weights.checkpoint_;
  std::vector<Slot> slots = SlotsFor(config, weights);
  for (Slot& slot : slots) RETURN_IF_ERROR(Locate(checkpoint, slot));
  RETURN_IF_ERROR(CheckNoneBesides(checkpoint, slots, config));
  // First: it reads all that is read below, by several threads.
  if (options.digests != nullptr) {
    weights.digests_ =
        DigestFiles(checkpoint, *options.digests, options.digest_progress);
  }

  const Dtype dtype = options.dtype.value_or(slots[0].stored);
  CHECK(dtype == Dtype::kBFloat16 || dtype == Dtype::kFloat16 ||
            dtype == Dtype::kFloat32,
        "dtype={}", DtypeName(dtype));
  size_t copies_bytes = 0;
  for (Slot& slot : slots) {
    const auto address =
        reinterpret_cast<uintptr_t>(slot.entry->tensor.bytes.data());
    slot.copied = slot.stored != dtype ||
                  address % static_cast<uintptr_t>(DtypeBytes(dtype)) != 0;
    weights.num_parameters_ += slot.num_elements();
    (slot.copied ? weights.copied_bytes_ : weights.mapped_bytes_) +=
        BytesOf(slot, dtype);
    if (slot.copied) copies_bytes += PaddedBytes(slot, dtype);
  }
  ASSIGN_OR_RETURN(
      weights.copies_,
      Buffer::AllocateHost(copies_bytes, fmt::format("weights converted to {}",
                                                     DtypeName(dtype))));
  std::byte* copy = weights.copies_.data();
  for (Slot& slot : slots) {
    *slot.view = ViewOf(
        slot, slot.copied ? copy : slot.entry->tensor.bytes.data(), dtype);
    if (slot.copied) copy += PaddedBytes(slot, dtype);
  }
  if (config.tied_embeddings) weights.lm_head = DenseMatrix(weights.embedding);
  RETURN_IF_ERROR(ReadIn(checkpoint, slots, options.progress));
  return weights;
}

Status Weights::CheckFiles() const {
  if (digests_.empty() || mapped_bytes_ == 0) return Ok{};
  for (const MappedFile& file : checkpoint_.files()) {
    const Result<FileStamp> stamp = file.StampNow();
    if (stamp.ok() && *stamp == file.stamp()) continue;
    return MakeError(ErrorCode::kCorrupt,
                     "{}: must stay as it is while the model runs, has "
                     "changed: start again when it is whole",
                     file.path().string());
  }
  return Ok{};
}

}  // namespace winnow
