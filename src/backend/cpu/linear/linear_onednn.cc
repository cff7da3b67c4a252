#include "backend/cpu/linear/linear_onednn.h"

#include <oneapi/dnnl/dnnl.h>

#include <array>
#include <new>

#include "backend/cpu/grown_buffer.h"

namespace winnow {
namespace {

// Nothing that Winnow asks for may fail but for want of memory: the shapes are
// checked, and a plain product exists for every CPU.
#define CHECK_ONEDNN(call)                                              \
  do {                                                                  \
    const dnnl_status_t onednn_status = (call);                         \
    if (onednn_status == dnnl_out_of_memory) throw std::bad_alloc();    \
    CHECK(onednn_status == dnnl_success, #call " fails with status {}", \
          static_cast<int>(onednn_status));                             \
  } while (false)

struct DestroyDescription {
  void operator()(dnnl_memory_desc_t description) const {
    CHECK_ONEDNN(dnnl_memory_desc_destroy(description));
  }
  void operator()(dnnl_primitive_desc_t description) const {
    CHECK_ONEDNN(dnnl_primitive_desc_destroy(description));
  }
  void operator()(dnnl_primitive_attr_t attributes) const {
    CHECK_ONEDNN(dnnl_primitive_attr_destroy(attributes));
  }
};
template <typename T>
using Description = std::unique_ptr<T, DestroyDescription>;

Description<dnnl_memory_desc> DescribeMatrix(dnnl_data_type_t dtype,
                                             std::array<int64_t, 2> shape,
                                             std::array<int64_t, 2> strides) {
  dnnl_dims_t dims = {shape[0], shape[1]};
  dnnl_dims_t steps = {strides[0], strides[1]};
  dnnl_memory_desc_t description = nullptr;
  CHECK_ONEDNN(dnnl_memory_desc_create_with_strides(&description, 2, dims,
                                                    dtype, steps));
  return Description<dnnl_memory_desc>(description);
}

// Float32 stays float32, whatever the environment says; scratch memory is the
// caller's, so that a product can run on several workers.
Description<dnnl_primitive_attr> DescribeAttributes() {
  dnnl_primitive_attr_t attributes = nullptr;
  CHECK_ONEDNN(dnnl_primitive_attr_create(&attributes));
  Description<dnnl_primitive_attr> owner(attributes);
  CHECK_ONEDNN(dnnl_primitive_attr_set_scratchpad_mode(
      attributes, dnnl_scratchpad_mode_user));
  CHECK_ONEDNN(
      dnnl_primitive_attr_set_fpmath_mode(attributes, dnnl_fpmath_mode_strict));
  return owner;
}

OneDnn<dnnl_memory> MakeMemory(const_dnnl_memory_desc_t description,
                               dnnl_engine_t engine) {
  dnnl_memory_t memory = nullptr;
  CHECK_ONEDNN(
      dnnl_memory_create(&memory, description, engine, DNNL_MEMORY_NONE));
  return OneDnn<dnnl_memory>(memory);
}

dnnl_data_type_t DataTypeOf(Dtype dtype) {
  if (dtype == Dtype::kFloat32) return dnnl_f32;
  CHECK(dtype == Dtype::kBFloat16, "dtype={}", DtypeName(dtype));
  return dnnl_bf16;
}

}  // namespace

void DestroyOneDnn::operator()(dnnl_engine* engine) const {
  CHECK_ONEDNN(dnnl_engine_destroy(engine));
}
void DestroyOneDnn::operator()(dnnl_stream* stream) const {
  CHECK_ONEDNN(dnnl_stream_destroy(stream));
}
void DestroyOneDnn::operator()(dnnl_primitive* primitive) const {
  CHECK_ONEDNN(dnnl_primitive_destroy(primitive));
}
void DestroyOneDnn::operator()(dnnl_memory* memory) const {
  CHECK_ONEDNN(dnnl_memory_destroy(memory));
}

void OneDnnProduct::Run(int worker, const void* x, const void* weight,
                        float* y) const {
  const auto index = static_cast<size_t>(worker);
  const Worker& own = workers_[index];
  const auto set = [](const OneDnn<dnnl_memory>& memory, const void* data) {
    CHECK_ONEDNN(
        dnnl_memory_set_data_handle(memory.get(), const_cast<void*>(data)));
  };
  set(own.x, x);
  set(own.weight, weight);
  set(own.y, y);
  set(own.scratch, scratch_[index].data());
  const dnnl_exec_arg_t arguments[] = {
      {DNNL_ARG_SRC, own.x.get()},
      {DNNL_ARG_WEIGHTS, own.weight.get()},
      {DNNL_ARG_DST, own.y.get()},
      {DNNL_ARG_SCRATCHPAD, own.scratch.get()}};
  CHECK_ONEDNN(dnnl_primitive_execute(primitive_.get(), own.stream,
                                      std::size(arguments), arguments));
}

OneDnnProducts::OneDnnProducts(int num_workers)
    : scratch_(static_cast<size_t>(num_workers)) {
  dnnl_engine_t engine = nullptr;
  CHECK_ONEDNN(dnnl_engine_create(&engine, dnnl_cpu, 0));
  engine_.reset(engine);
  for (int i = 0; i < num_workers; ++i) {
    dnnl_stream_t stream = nullptr;
    CHECK_ONEDNN(dnnl_stream_create(&stream, engine, dnnl_stream_in_order));
    streams_.emplace_back(stream);
  }
}

const OneDnnProduct& OneDnnProducts::Prepare(const ProductShape& shape) {
  const auto found = products_.find(shape);
  if (found != products_.end()) return *found->second;
  return *products_.emplace(shape, Make(shape)).first->second;
}

std::unique_ptr<OneDnnProduct> OneDnnProducts::Make(const ProductShape& shape) {
  CHECK(shape.num_rows >= 2 && shape.num_columns >= 2 && shape.num_in >= 1,
        "rows={} columns={} in={}", shape.num_rows, shape.num_columns,
        shape.num_in);
  const dnnl_data_type_t dtype = DataTypeOf(shape.dtype);
  const auto x = DescribeMatrix(dtype, {shape.num_rows, shape.num_in},
                                {shape.x_stride, 1});
  const auto weight = DescribeMatrix(dtype, {shape.num_in, shape.num_columns},
                                     {1, shape.weight_stride});
  const auto y = DescribeMatrix(dnnl_f32, {shape.num_rows, shape.num_columns},
                                {shape.num_columns, 1});
  const auto attributes = DescribeAttributes();
  dnnl_primitive_desc_t made = nullptr;
  CHECK_ONEDNN(dnnl_matmul_primitive_desc_create(&made, engine_.get(), x.get(),
                                                 weight.get(), nullptr, y.get(),
                                                 attributes.get()));
  const Description<dnnl_primitive_desc> description(made);

  auto product = std::make_unique<OneDnnProduct>();
  dnnl_primitive_t primitive = nullptr;
  CHECK_ONEDNN(dnnl_primitive_create(&primitive, made));
  product->primitive_.reset(primitive);
  const const_dnnl_memory_desc_t scratch =
      dnnl_primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0);
  product->scratch_bytes_ = dnnl_memory_desc_get_size(scratch);
  product->scratch_ = scratch_.data();
  for (size_t i = 0; i < streams_.size(); ++i) {
    product->workers_.push_back({streams_[i].get(),
                                 MakeMemory(x.get(), engine_.get()),
                                 MakeMemory(weight.get(), engine_.get()),
                                 MakeMemory(y.get(), engine_.get()),
                                 MakeMemory(scratch, engine_.get())});
    Grow(product->scratch_bytes_, scratch_[i]);
  }
  return product;
}

}  // namespace winnow
