// What a step does to memory and to its draws, refused call by call.
#include <gtest/gtest.h>

#include "backend/conformance/sample_case.h"
#include "backend/conformance/slot_case.h"
#include "backend/cuda/emulated/faulty_backend.h"

namespace winnow {
namespace {

KvShape SmallShape() {
  KvShape shape;
  shape.num_kv_heads = 2;
  shape.group_heads = 2;
  shape.k_dim = shape.v_dim = 16;
  return shape;
}

TEST(StepFaultsTest, TokensThatCannotBeAppendedOrMovedAreAnError) {
  RandomSource random(1);
  const KvShape shape = SmallShape();
  const PagedCase paged(shape, {{40, 3, 3}, {70, 1, 0}}, random);
  constexpr int64_t kRows = 4;
  const auto draw = [&](int64_t heads) {
    return RandomArray(shape.dtype, {kRows, heads, 16}, random);
  };
  const TestArray q = draw(4), k = draw(2), v = draw(2);
  const TestArray cos_sin = RandomArray(Dtype::kFloat32, {kRows, 16}, random);
  const std::vector<std::byte> image = paged.PoolImage({40, 70});
  ExpectEachRefused(
      [&](TestDevice& device) {
        const View pool = device.UploadBytes(image);
        const LayerCache cache = paged.Cache(device, pool);
        TokenInputs inputs;
        inputs.q = device.Upload(q);
        inputs.k = device.Upload(k);
        inputs.v = device.Upload(v);
        inputs.cos_sin = device.Upload(cos_sin);
        device.backend().Append(device.queue(),
                                paged.Step(device, paged.requests(), 0), inputs,
                                cache);
        const LayerCache layers[] = {cache};
        const PageCopy copies[] = {{.from = KvBlockId(paged.KvBlockOf(0, 0)),
                                    .to = KvBlockId(paged.spare_kv_block()),
                                    .num_tokens = 20}};
        device.backend().CopyPagePrefixes(device.queue(), {layers, copies});
        (void)device.DownloadBytes(pool);
      },
      {"Append", "CopyPagePrefixes"});
}

TEST(StepFaultsTest, WhatCannotBeBroughtIsAnError) {
  RandomSource random(2);
  const PagedCase paged(SmallShape(), {{90, 1, 0}, {70, 1, 0}}, random);
  SlotCase slots(paged, 8, {2, 2}, random);
  slots.Draw(0, 3, random);
  TestArray picks(Dtype::kUInt32, {2, 2, 1, 2});
  picks.values = {0, 255, 1, 255, 0, 65280, 1, 65280};
  TestArray num_picks(Dtype::kInt32, {2, 2});
  std::ranges::fill(num_picks.values, 1);
  ExpectEachRefused(
      [&](TestDevice& device) {
        const SlotCase::OnDevice on = slots.Upload(device, false);
        FetchArgs args;
        args.slots = &on.slots;
        args.source.kind = AttendSource::Kind::kPicks;
        args.source.picks.picks = device.Upload(picks);
        args.source.picks.num_picks = device.Upload(num_picks);
        args.source.picks.num_lists = device.Upload(Int32Array({2, 2}));
        args.counts =
            device.Upload(TestArray(Dtype::kUInt32, {2, kNumFetchCounts}));
        device.backend().Fetch(device.queue(),
                               paged.Step(device, paged.requests(), 0), args,
                               on.cache);
        (void)device.DownloadBytes(on.pool);
      },
      {"Fetch"});
}

TEST(StepFaultsTest, ADrawThatCannotBeMadeIsAnError) {
  RandomSource random(3);
  const std::vector<OracleCase> rows = {RandomSampleCase(50, random),
                                        RandomSampleCase(50, random)};
  ExpectEachRefused([&](TestDevice& device) { (void)SampleRows(device, rows); },
                    {"Sample"});
}

}  // namespace
}  // namespace winnow
