#include "backend/conformance/sample_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/conformance/float_extremes.h"

namespace winnow {
namespace {

template <typename T>
const T* UploadPlain(TestDevice& device, const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (values.empty()) return nullptr;
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return reinterpret_cast<const T*>(device.UploadBytes(bytes).data);
}

// The rows' lists one after another, behind an entry that is nobody's.
template <typename Entry>
struct Lists {
  std::vector<int32_t> begin = {1};
  std::vector<Entry> entries = {Entry{.token_id = -1}};

  void Add(const std::vector<Entry>& of_row) {
    entries.insert(entries.end(), of_row.begin(), of_row.end());
    begin.push_back(static_cast<int32_t>(entries.size()));
  }
  bool none() const { return entries.size() == 1; }
};

// Bits behind the vocabulary are set: no token is there to be drawn.
TestArray MaskArray(const std::vector<OracleCase>& rows) {
  const auto vocab = rows[0].logits.size();
  const size_t words = (vocab + 31) / 32;
  TestArray mask(Dtype::kUInt32,
                 {std::ssize(rows), static_cast<int64_t>(words)});
  for (size_t row = 0; row < rows.size(); ++row) {
    const std::vector<bool>& allowed = rows[row].allowed;
    for (size_t word = 0; word < words; ++word) {
      uint32_t bits = ~uint32_t{0};
      for (size_t i = 0; i < 32 && word * 32 + i < allowed.size(); ++i) {
        if (!allowed[word * 32 + i]) bits &= ~(uint32_t{1} << i);
      }
      mask.values[row * words + word] = bits;
    }
  }
  return mask;
}

void UploadRows(TestDevice& device, const std::vector<OracleCase>& rows,
                int64_t gap, SampleArgs* args) {
  const int64_t vocab = std::ssize(rows[0].logits);
  TestArray logits(Dtype::kFloat32, {std::ssize(rows), vocab});
  std::vector<SamplingRow> params;
  Lists<SeenToken> seen;
  Lists<TokenBias> bias;
  bool any_mask = false;
  logits.values.clear();
  for (const OracleCase& row : rows) {
    CHECK(std::ssize(row.logits) == vocab, "vocab={} and {}", vocab,
          row.logits.size());
    logits.values.insert(logits.values.end(), row.logits.begin(),
                         row.logits.end());
    params.push_back(row.row);
    seen.Add(row.seen);
    bias.Add(row.bias);
    any_mask = any_mask || !row.allowed.empty();
  }
  args->logits = device.Upload(logits, gap);
  args->rows = UploadPlain(device, params);
  if (!seen.none()) {
    args->seen_begin = device.Upload(Int32Array(seen.begin));
    args->seen = UploadPlain(device, seen.entries);
  }
  if (!bias.none()) {
    args->bias_begin = device.Upload(Int32Array(bias.begin));
    args->bias = UploadPlain(device, bias.entries);
  }
  if (any_mask) args->mask = device.Upload(MaskArray(rows), gap);
}

// An output of ids. Poison would not do: its bytes are those of -1.
View UnwrittenIds(TestDevice& device, const std::vector<int64_t>& shape,
                  int64_t gap = 0) {
  TestArray ids(Dtype::kInt32, shape);
  std::ranges::fill(ids.values, -7);
  return device.Upload(ids, gap);
}

// The generator as its authors state it (Salmon and others, SC 2011, section
// 3.3), and how the rules take 64 bits from it.
uint64_t ReferenceBits(uint64_t seed, uint64_t draw) {
  using Word = uint64_t;  // each below 2^32
  const Word mask = 0xffffffff;
  Word c[4] = {draw & mask, draw >> 32, 0, 0};
  Word key[2] = {seed & mask, seed >> 32};
  for (int round = 0; round < 10; ++round) {
    const Word left = c[0] * 0xD2511F53, right = c[2] * 0xCD9E8D57;
    const Word next[4] = {(right >> 32) ^ c[1] ^ key[0], right & mask,
                          (left >> 32) ^ c[3] ^ key[1], left & mask};
    std::copy(next, next + 4, c);
    key[0] = (key[0] + 0x9E3779B9) & mask;
    key[1] = (key[1] + 0xBB67AE85) & mask;
  }
  return c[0] + (c[1] << 32);
}

void RandomRules(RandomSource& random, int64_t vocab, SamplingRow* row) {
  std::uniform_real_distribution<float> share(0, 1);
  const auto any_share = [&] { return share(random.engine()); };
  row->temperature = random.Chance(0.2) ? 0.0f : 0.05f + 2 * any_share();
  if (random.Chance(0.5)) row->top_p = any_share();
  if (random.Chance(0.1)) row->top_p = random.Among({0.0f, 1e-9f, 0.9999f});
  if (random.Chance(0.3)) row->min_p = 0.3f * any_share();
  if (random.Chance(0.1)) row->min_p = random.Among({1.0f, 1e-30f});
  if (random.Chance(0.5)) {
    row->top_k = static_cast<int32_t>(random.Between(1, 60));
  }
  if (random.Chance(0.1)) {
    row->top_k = static_cast<int32_t>(random.Between(-1, vocab + 1));
  }
  row->repetition_penalty = 0.7f + any_share();
  row->presence_penalty = any_share() - 0.3f;
  row->frequency_penalty = any_share() - 0.3f;
  row->seed = random.engine()();
  row->draw = random.engine()();
}

}  // namespace

OracleCase CaseOf(std::vector<float> logits, SamplingRow row) {
  OracleCase asked;
  asked.logits = std::move(logits);
  asked.row = row;
  return asked;
}

std::vector<SampleAnswer> SampleRows(TestDevice& device,
                                     const std::vector<OracleCase>& rows,
                                     const SampleLayout& layout) {
  const int64_t num_rows = std::ssize(rows);
  SampleArgs args;
  UploadRows(device, rows, layout.gap, &args);
  args.token_ids = UnwrittenIds(device, {num_rows});
  args.logprobs = device.Output(Dtype::kFloat32, {num_rows});
  if (layout.max_top > 0) {
    const std::vector<int64_t> shape = {num_rows, layout.max_top};
    args.top_ids = UnwrittenIds(device, shape, layout.gap);
    args.top_logprobs = device.Output(Dtype::kFloat32, shape, layout.gap + 1);
  }
  device.backend().Sample(device.queue(), args);
  const TestArray ids = device.Download(args.token_ids);
  const TestArray logprobs = device.Download(args.logprobs);
  TestArray top_ids, top_logprobs;
  if (layout.max_top > 0) {
    top_ids = device.Download(args.top_ids);
    top_logprobs = device.Download(args.top_logprobs);
  }
  std::vector<SampleAnswer> tokens(rows.size());
  for (size_t row = 0; row < rows.size(); ++row) {
    tokens[row].token_id = static_cast<int32_t>(ids.values[row]);
    tokens[row].logprob = logprobs.values[row];
    for (int64_t i = 0; i < layout.max_top; ++i) {
      const auto at = static_cast<int64_t>(row);
      tokens[row].top_ids.push_back(static_cast<int32_t>(top_ids.at(at, i)));
      tokens[row].top_logprobs.push_back(top_logprobs.at(at, i));
    }
  }
  return tokens;
}

OracleCase RandomSampleCase(int64_t vocab, RandomSource& random) {
  OracleCase asked;
  // Narrow where there are few tokens, so that most draws leave no choice.
  const float spread = vocab > 2000 ? 8.0f : random.Among({0.1f, 2.0f, 8.0f});
  std::normal_distribution<float> normal(random.Among({0.0f, 15.0f}), spread);
  const bool coarse = random.Chance(0.3);
  const bool masked = random.Chance(0.5);
  const bool lists = random.Chance(0.5);
  for (int64_t i = 0; i < vocab; ++i) {
    float logit = normal(random.engine());
    if (coarse) logit = std::round(logit);
    if (random.Chance(0.02)) logit = random.Among({-kInfinity, NAN});
    asked.logits.push_back(logit);
    if (masked) asked.allowed.push_back(random.Chance(0.75));
    const auto id = static_cast<int32_t>(vocab - 1 - i);
    if (lists && random.Chance(0.2)) {
      asked.seen.push_back({id, static_cast<int32_t>(random.Between(0, 3))});
    }
    if (lists && random.Chance(0.15)) {
      asked.bias.push_back({id, normal(random.engine())});
    }
  }
  std::shuffle(asked.seen.begin(), asked.seen.end(), random.engine());
  RandomRules(random, vocab, &asked.row);
  return asked;
}

DrawVerdict JudgeDraw(const OracleCase& asked, const OracleAnswer& answer,
                      int32_t token_id) {
  if (answer.order.empty()) return {token_id == -1, false};
  if (token_id < 0 || token_id >= std::ssize(asked.logits)) return {};
  if (asked.row.temperature == 0) return {token_id == answer.order[0], false};
  constexpr double kSlack = 1e-5;
  const auto bits = ReferenceBits(asked.row.seed, asked.row.draw);
  const double place = std::ldexp(static_cast<double>(bits), -64);
  const auto id = static_cast<size_t>(token_id);
  DrawVerdict verdict;
  for (size_t n = answer.min_kept; n <= answer.max_kept; ++n) {
    const std::vector<double> probabilities = answer.Probabilities(n);
    double before = 0;
    for (size_t i = 0; i < id; ++i) before += probabilities[i];
    const double after = before + probabilities[id];
    if (probabilities[id] == 0 || place < before - kSlack ||
        place > after + kSlack) {
      continue;
    }
    verdict.is_right = true;
    verdict.is_close = answer.min_kept != answer.max_kept ||
                       place < before + kSlack || place > after - kSlack;
    break;
  }
  return verdict;
}

}  // namespace winnow
