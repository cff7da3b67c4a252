#include "model/forward/activations.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

Model LoadTiny(const char* name) {
  const TemporaryFolder folder("activations");
  WriteTinyModel(ReadTinyCase(name), folder.path(), {});
  return Model::Load(folder.path(), {}).value();
}

size_t NumBytesOf(const View& view) {
  return static_cast<size_t>(view.num_elements() * DtypeBytes(view.dtype));
}

// The array that views are the columns of, in order, without a gap.
View Together(const std::vector<View>& views) {
  View all = views.front();
  for (size_t i = 1; i < views.size(); ++i) {
    EXPECT_EQ(views[i].data, all.data + all.dim(1) * DtypeBytes(all.dtype));
    EXPECT_EQ(views[i].stride[0], all.stride[0]);
    all.shape[1] += views[i].dim(1);
  }
  EXPECT_EQ(all.stride[0], all.dim(1));
  return all;
}

// qwen3: hidden 64, 4 q and 2 kv heads of 32, intermediate 96, float32.
TEST(ActivationsTest, BytesAreThoseOfTheWidestPart) {
  const Model model = LoadTiny("qwen3");
  // cos_sin 32, normed 64, then q 128 + k 64 + v 64 + attended 128.
  EXPECT_EQ(Activations::NumBytes(model, {.max_rows = 16}),
            size_t{16} * (32 + 64 + 384) * 4);
  // Many wanted rows: gathered 64 and its norm 64.
  EXPECT_EQ(
      Activations::NumBytes(model, {.max_rows = 16, .max_logit_rows = 1024}),
      size_t{4} * (16 * (32 + 64) + 1024 * 128));
}

TEST(ActivationsTest, ViewsOfAPartLieApartAndInside) {
  const Model model = LoadTiny("qwen3");
  const auto backend = MakeCpuBackend({.num_threads = 1});
  const Activations::Limits limits = {.max_rows = 9, .max_logit_rows = 9};
  const Activations activations =
      Activations::Allocate(*backend, model, limits).value();
  for (const int64_t rows : {0, 1, 9}) {
    const Activations::Views views = activations.For(rows, rows);
    const std::byte* base = views.cos_sin.data;
    const std::byte* end = base + Activations::NumBytes(model, limits);
    for (const std::vector<View>& part :
         {std::vector<View>{views.cos_sin, views.normed,
                            Together({views.q, views.k, views.v}),
                            views.attended},
          {views.cos_sin, views.normed, Together({views.gate, views.up})},
          {views.gathered, views.gathered_norm}}) {
      const std::byte* last = base;
      for (const View& view : part) {
        EXPECT_EQ(view.dim(0), rows);
        EXPECT_GE(view.data, last);
        last = view.data + NumBytesOf(view);
        EXPECT_LE(last, end);
      }
    }
  }
}

TEST(ActivationsDeathTest, MoreRowsThanTheLimitAreABug) {
  const Model model = LoadTiny("llama");
  const auto backend = MakeCpuBackend({.num_threads = 1});
  const Activations activations =
      Activations::Allocate(*backend, model,
                            {.max_rows = 2, .max_logit_rows = 1})
          .value();
  EXPECT_DEATH(activations.For(3, 0), "rows=3 max=2");
  EXPECT_DEATH(activations.For(2, 2), "logit_rows=2 max=1");
}

}  // namespace
}  // namespace winnow
