// A library that takes no product: the kernels take them all.
#include "backend/cuda/linear/cublaslt.h"

namespace winnow {

struct CublasLt::Library {};
struct CublasLt::Matmul {};

CublasLt::CublasLt(std::unique_ptr<Library> library)
    : library_(std::move(library)) {}
CublasLt::~CublasLt() = default;

Result<std::unique_ptr<CublasLt>> CublasLt::Open() {
  return std::unique_ptr<CublasLt>(new CublasLt(std::make_unique<Library>()));
}
bool CublasLt::Enqueue(CudaQueue&, const CublasLtShape&,
                       const CublasLtOperands&) {
  return false;
}

}  // namespace winnow
