#include "backend/cuda/linear/cublaslt.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <utility>

namespace winnow {
namespace {

// Of the device's workspace, what a product may use.
constexpr size_t kMaxWorkspaceBytes = size_t{32} << 20;
// Rows for which the algorithm of batch-invariant products is chosen.
constexpr int64_t kInvariantRows = 128;

cudaDataType_t CudaTypeOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return CUDA_R_32F;
    case Dtype::kBFloat16:
      return CUDA_R_16BF;
    case Dtype::kFloat16:
      return CUDA_R_16F;
    default:
      CHECK(false, "dtype={}", DtypeName(dtype));
  }
}

}  // namespace

struct CublasLt::Library {
  void* file = nullptr;
  cublasLtHandle_t handle = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;

  ~Library() {
    if (handle != nullptr) destroy(handle);
    if (file != nullptr) dlclose(file);
  }

  template <typename Function>
  bool Load(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(file, name));
    return *function != nullptr;
  }
  bool LoadAll() {
    return Load("cublasLtCreate", &create) &&
           Load("cublasLtDestroy", &destroy) &&
           Load("cublasLtMatmulDescCreate", &desc_create) &&
           Load("cublasLtMatmulDescDestroy", &desc_destroy) &&
           Load("cublasLtMatmulDescSetAttribute", &desc_set) &&
           Load("cublasLtMatrixLayoutCreate", &layout_create) &&
           Load("cublasLtMatrixLayoutDestroy", &layout_destroy) &&
           Load("cublasLtMatmulPreferenceCreate", &preference_create) &&
           Load("cublasLtMatmulPreferenceDestroy", &preference_destroy) &&
           Load("cublasLtMatmulPreferenceSetAttribute", &preference_set) &&
           Load("cublasLtMatmulAlgoGetHeuristic", &heuristic) &&
           Load("cublasLtMatmul", &matmul);
  }
};

// Owns the library's descriptors; column-major there, so that W is the first
// factor and out^T = W x^T.
struct CublasLt::Matmul {
  const Library* library = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t weight = nullptr, x = nullptr, out = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};

  explicit Matmul(const Library& of) : library(&of) {}
  Matmul(Matmul&& other) noexcept
      : library(other.library),
        desc(std::exchange(other.desc, nullptr)),
        weight(std::exchange(other.weight, nullptr)),
        x(std::exchange(other.x, nullptr)),
        out(std::exchange(other.out, nullptr)),
        algorithm(other.algorithm) {}
  ~Matmul() {
    if (desc != nullptr) library->desc_destroy(desc);
    for (const auto layout : {weight, x, out}) {
      if (layout != nullptr) library->layout_destroy(layout);
    }
  }

  bool Describe(const CublasLtShape& shape) {
    const auto in_type = CudaTypeOf(shape.dtype);
    const auto out_type = CudaTypeOf(shape.out_dtype);
    const auto rows = static_cast<uint64_t>(shape.rows);
    const auto inputs = static_cast<uint64_t>(shape.inputs);
    const auto outputs = static_cast<uint64_t>(shape.outputs);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    if (library->desc_create(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) ||
        library->desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                          sizeof(transposed)) ||
        library->layout_create(&weight, in_type, inputs, outputs,
                               shape.weight_stride) ||
        library->layout_create(&x, in_type, inputs, rows, shape.x_stride) ||
        library->layout_create(&out, out_type, outputs, rows,
                               shape.out_stride)) {
      return false;
    }
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    return !shape.adds_bias ||
           library->desc_set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                             sizeof(epilogue)) == CUBLAS_STATUS_SUCCESS;
  }
};

CublasLt::CublasLt(std::unique_ptr<Library> library)
    : library_(std::move(library)) {}
CublasLt::~CublasLt() { matmuls_.clear(); }

Result<std::unique_ptr<CublasLt>> CublasLt::Open() {
  auto library = std::make_unique<Library>();
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so"}) {
    library->file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library->file != nullptr) break;
  }
  if (library->file == nullptr) {
    return MakeError(ErrorCode::kUnsupported,
                     "libcublasLt.so.13 (CUDA 13) was not found: {}",
                     dlerror());
  }
  if (!library->LoadAll() ||
      library->create(&library->handle) != CUBLAS_STATUS_SUCCESS) {
    return MakeError(ErrorCode::kUnsupported,
                     "libcublasLt.so.13 does not start on this machine");
  }
  return std::unique_ptr<CublasLt>(new CublasLt(std::move(library)));
}

std::optional<CublasLt::Matmul> CublasLt::Plan(const CublasLtShape& shape) {
  Matmul plan(*library_);
  if (!plan.Describe(shape)) return {};
  cublasLtMatmulPreference_t preference = nullptr;
  if (library_->preference_create(&preference) != CUBLAS_STATUS_SUCCESS) {
    return {};
  }
  const uint64_t workspace_bytes =
      shape.batch_invariant ? 0 : kMaxWorkspaceBytes;
  library_->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                           &workspace_bytes, sizeof(workspace_bytes));
  if (shape.batch_invariant) {
    // Split sums would take their order from the number of rows.
    const uint32_t no_splits = CUBLASLT_REDUCTION_SCHEME_NONE;
    library_->preference_set(preference,
                             CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                             &no_splits, sizeof(no_splits));
  }
  cublasLtMatmulHeuristicResult_t found = {};
  int num_found = 0;
  const cublasStatus_t status = library_->heuristic(
      library_->handle, plan.desc, plan.weight, plan.x, plan.out, plan.out,
      preference, 1, &found, &num_found);
  library_->preference_destroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || num_found == 0) return {};
  plan.algorithm = found.algo;
  return plan;
}

const CublasLt::Matmul* CublasLt::Find(const CublasLtShape& shape) {
  const auto known = matmuls_.find(shape);
  if (known != matmuls_.end()) return known->second.get();
  std::optional<Matmul> plan = Plan(shape);
  if (plan && shape.batch_invariant && shape.rows != kInvariantRows) {
    CublasLtShape model = shape;
    model.rows = kInvariantRows;
    const Matmul* chosen = Find(model);
    if (chosen == nullptr) return nullptr;
    plan->algorithm = chosen->algorithm;
  }
  std::unique_ptr<Matmul>& entry = matmuls_[shape];
  if (plan) entry = std::make_unique<Matmul>(std::move(*plan));
  return entry.get();
}

bool CublasLt::Enqueue(CudaQueue& queue, const CublasLtShape& shape,
                       const CublasLtOperands& operands) {
  const Matmul* matmul = Find(shape);
  if (matmul == nullptr) return false;
  if (shape.adds_bias) {
    library_->desc_set(matmul->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                       &operands.bias, sizeof(operands.bias));
  }
  const float beta = operands.addend == nullptr ? 0.0f : 1.0f;
  const void* addend =
      operands.addend == nullptr ? operands.out : operands.addend;
  const CudaDevice& device = queue.device();
  const cublasStatus_t status = library_->matmul(
      library_->handle, matmul->desc, &operands.alpha, operands.weight,
      matmul->weight, operands.x, matmul->x, &beta, addend, matmul->out,
      operands.out, matmul->out, &matmul->algorithm, device.workspace,
      shape.batch_invariant
          ? 0
          : std::min(device.workspace_bytes, kMaxWorkspaceBytes),
      queue.stream());
  if (status != CUBLAS_STATUS_SUCCESS) return false;
  queue.KeepLaunch("Linear by cuBLASLt");
  return true;
}

}  // namespace winnow
