#include "tests/golden/tiny_model.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/file.h"
#include "source_dir.h"

namespace winnow {
namespace {

using nlohmann::json;

constexpr uint64_t kFnvBasis = 0xCBF29CE484222325u;
constexpr uint64_t kFnvPrime = 0x100000001B3u;
constexpr size_t kMaxFileBytes = size_t{1} << 20;

std::filesystem::path ModelsFolder() {
  return std::filesystem::path(WINNOW_SOURCE_DIR) / "tests/golden/models";
}

uint64_t Fnv1a64(std::string_view text) {
  uint64_t state = kFnvBasis;
  for (const char byte : text) {
    state = (state ^ static_cast<uint8_t>(byte)) * kFnvPrime;
  }
  return state;
}

struct Spread {
  float offset = 0;
  float scale = 0;
};

// The table of README.md: first match counts.
Spread SpreadOf(std::string_view name, const std::vector<int64_t>& shape) {
  if (name.ends_with("q_norm.weight") || name.ends_with("k_norm.weight")) {
    return {1.5f, 0.25f};
  }
  if (name.ends_with("norm.weight")) return {1.0f, 0.25f};
  if (name.ends_with(".bias")) return {0.0f, 0.25f};
  if (name.ends_with("embed_tokens.weight")) return {0.0f, 1.0f};
  double gain = 1;
  if (name.ends_with("q_proj.weight") || name.ends_with("k_proj.weight")) {
    gain = 1.75;
  } else if (name.ends_with("lm_head.weight")) {
    gain = 3;
  }
  const auto in = static_cast<double>(shape.back());
  return {0.0f, static_cast<float>(gain * std::sqrt(3.0 / in))};
}

std::vector<float> ValuesOf(std::string_view name,
                            const std::vector<int64_t>& shape) {
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  const Spread spread = SpreadOf(name, shape);
  const uint64_t seed = Fnv1a64(name);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    const uint64_t hash = z ^ (z >> 31);
    const int32_t centred = static_cast<int32_t>(hash >> 40) - (1 << 23);
    const float t = static_cast<float>(centred) * 0x1p-23f;
    values[i] = spread.offset + spread.scale * t;
  }
  return values;
}

uint64_t ChecksumOf(const std::vector<TinyTensor>& tensors) {
  uint64_t state = kFnvBasis;
  for (const TinyTensor& tensor : tensors) {
    for (const float value : tensor.values) {
      state = (state ^ std::bit_cast<uint32_t>(value)) * kFnvPrime;
    }
  }
  return state;
}

json ReadJson(const std::filesystem::path& path) {
  return json::parse(ReadFile(path, kMaxFileBytes).value());
}

// A tensor's bytes in `dtype`.
std::string BytesOf(const TinyTensor& tensor, Dtype dtype) {
  std::string bytes;
  const auto append = [&](auto value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  for (const float value : tensor.values) {
    switch (dtype) {
      case Dtype::kFloat32:
        append(value);
        break;
      case Dtype::kBFloat16:
        append(BFloat16(value));
        break;
      case Dtype::kFloat16:
        append(Float16(value));
        break;
      default:
        CHECK(false, "dtype={}", DtypeName(dtype));
    }
  }
  return bytes;
}

std::string_view FormatName(Dtype dtype) {
  if (dtype == Dtype::kBFloat16) return "BF16";
  return dtype == Dtype::kFloat16 ? "F16" : "F32";
}

void WriteSafetensors(const std::vector<const TinyTensor*>& tensors,
                      Dtype dtype, const std::filesystem::path& path,
                      const json& metadata = {}) {
  json header;
  if (!metadata.is_null()) header["__metadata__"] = metadata;
  std::string data;
  for (const TinyTensor* tensor : tensors) {
    const size_t begin = data.size();
    data += BytesOf(*tensor, dtype);
    header[tensor->name] = {{"dtype", FormatName(dtype)},
                            {"shape", tensor->shape},
                            {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  CHECK(WriteFile(path, file + text + data).ok(), "{}", path.string());
}

}  // namespace

std::vector<std::string> TinyCaseNames() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(ModelsFolder())) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TinyCase ReadTinyCase(const std::string& name) {
  const std::filesystem::path folder = ModelsFolder() / name;
  TinyCase model;
  model.name = name;
  model.config_json = ReadFile(folder / "config.json", kMaxFileBytes).value();
  const json tensors = ReadJson(folder / "tensors.json");
  for (const auto& [tensor, shape] : tensors.at("shapes").items()) {
    const auto sizes = shape.get<std::vector<int64_t>>();
    model.tensors.push_back({tensor, sizes, ValuesOf(tensor, sizes)});
  }
  const auto expected = tensors.at("checksum").get<std::string>();
  CHECK(fmt::format("{:016x}", ChecksumOf(model.tensors)) == expected,
        "case={} checksum={:016x} expected={}", name, ChecksumOf(model.tensors),
        expected);
  const json prompt = ReadJson(folder / "prompt.json");
  model.tokens = prompt.at("tokens").get<std::vector<int32_t>>();
  model.planned_total_tokens = prompt.at("planned_total_tokens");
  model.logit_ids = prompt.at("logit_ids").get<std::vector<int32_t>>();
  const std::string logits =
      ReadFile(folder / "logits.bin", kMaxFileBytes).value();
  model.logits.resize(model.tokens.size() * model.logit_ids.size());
  CHECK(logits.size() == model.logits.size() * sizeof(float), "bytes={}",
        logits.size());
  std::memcpy(model.logits.data(), logits.data(), logits.size());
  return model;
}

TinyCase WithLayers(const TinyCase& model, int num_layers) {
  TinyCase deep = model;
  json config = json::parse(model.config_json);
  config["num_hidden_layers"] = num_layers;
  deep.config_json = config.dump();
  deep.logits.clear();
  const std::string first = "model.layers.0.";
  std::erase_if(deep.tensors, [](const TinyTensor& tensor) {
    return tensor.name.starts_with("model.layers.");
  });
  for (const TinyTensor& tensor : model.tensors) {
    if (!tensor.name.starts_with(first)) continue;
    for (int layer = 0; layer < num_layers; ++layer) {
      const std::string name = fmt::format("model.layers.{}.{}", layer,
                                           tensor.name.substr(first.size()));
      deep.tensors.push_back(
          {name, tensor.shape, ValuesOf(name, tensor.shape)});
    }
  }
  return deep;
}

void WriteTinyModel(const TinyCase& model, const std::filesystem::path& folder,
                    const TinyCheckpoint& form) {
  CHECK(form.num_shards >= 1, "num_shards={}", form.num_shards);
  CHECK(WriteFile(folder / "config.json", model.config_json).ok());
  const auto num_shards = static_cast<size_t>(form.num_shards);
  std::vector<std::vector<const TinyTensor*>> shards(num_shards);
  json weight_map = json::object();
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    shards[i % num_shards].push_back(&model.tensors[i]);
    weight_map[model.tensors[i].name] =
        fmt::format("model-{:05}.safetensors", i % num_shards);
  }
  if (num_shards == 1) {
    WriteSafetensors(shards[0], form.dtype, folder / "model.safetensors");
    return;
  }
  for (size_t shard = 0; shard < num_shards; ++shard) {
    WriteSafetensors(shards[shard], form.dtype,
                     folder / fmt::format("model-{:05}.safetensors", shard));
  }
  const json index = {{"metadata", json::object()}, {"weight_map", weight_map}};
  CHECK(WriteFile(folder / "model.safetensors.index.json", index.dump()).ok());
}

void WriteTinyGates(const ModelConfig& config,
                    const std::filesystem::path& folder,
                    const std::string& block_tokens) {
  const int64_t heads = config.num_kv_heads, dim = config.head_dim;
  std::vector<TinyTensor> tensors;
  for (int layer = 0; layer < config.num_layers; ++layer) {
    const auto add = [&](std::string_view name, std::vector<int64_t> shape) {
      const std::string full =
          fmt::format("model.layers.{}.self_attn.attn_gate.attngate_{}.weight",
                      layer, name);
      tensors.push_back({full, shape, ValuesOf(full, shape)});
    };
    add("linear_q", {heads, config.num_q_heads / heads, dim, dim});
    add("linear_k", {heads, 3 * dim, dim});
    add("qnorm", {dim});
    add("knorm", {dim});
  }
  std::vector<const TinyTensor*> all;
  for (const TinyTensor& tensor : tensors) all.push_back(&tensor);
  json metadata;
  if (!block_tokens.empty()) metadata["block_tokens"] = block_tokens;
  WriteSafetensors(all, Dtype::kBFloat16,
                   folder / "attn_gate_weights.safetensors", metadata);
}

std::unique_ptr<Model> LoadTinyModel(const TinyCase& tiny, Dtype dtype) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() /
      fmt::format("winnow_{}_{}", tiny.name, getpid());
  std::filesystem::create_directories(folder);
  WriteTinyModel(tiny, folder, {.dtype = dtype});
  Result<Model> model = Model::Load(folder, {});
  CHECK(model.ok(), "{}", model.error().message);
  std::filesystem::remove_all(folder);  // What is mapped stays.
  return std::make_unique<Model>(std::move(model).value());
}

}  // namespace winnow
