#include "simulate/trace_bytes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace winnow {
namespace {

// Bounds of what is read, so that no number makes room for what is not there.
constexpr uint64_t kMaxText = 1 << 16;
constexpr uint64_t kMaxLayers = 1 << 12;
constexpr uint64_t kMaxHeads = 1 << 12;
constexpr uint64_t kMaxRows = 1 << 24;  // of a step
// So that a page's number has 32 bits whatever follows.
constexpr uint64_t kMaxPosition = uint64_t{1} << 36;

// Tokens of a page that have a code of their own; the next code says that a
// mask follows. Blocks of 32 and of 16 tokens are what most selectors choose.
constexpr std::array<uint32_t, 3> kCodedTokens = {0xffffffffu, 0x0000ffffu,
                                                  0xffff0000u};
constexpr uint64_t kMaskCode = kCodedTokens.size();
constexpr uint64_t kNumCodes = kMaskCode + 1;

class ByteWriter {
 public:
  void Number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) Byte((value & 0x7f) | 0x80);
    Byte(value);
  }
  void Text(std::string_view text) {
    Number(text.size());
    bytes_ += text;
  }
  void Word(uint32_t word) {
    for (int shift = 0; shift < 32; shift += 8) Byte((word >> shift) & 0xff);
  }
  void Float(float value) { Word(std::bit_cast<uint32_t>(value)); }
  void Byte(uint64_t value) { bytes_ += static_cast<char>(value); }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Once something is wrong everything that is read is 0, and ok() is false.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  // At most `most`.
  uint64_t Number(uint64_t most) {
    uint64_t value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
      const uint64_t byte = Byte();
      value |= (byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return Checked(value, value <= most);
    }
    return Checked(0, false);
  }
  // How many things follow, each of which takes a byte at least.
  size_t Count(uint64_t most) {
    const uint64_t count = Number(most);
    return static_cast<size_t>(Checked(count, count <= left()));
  }
  std::string Text() {
    const size_t size = Count(kMaxText);
    std::string text(bytes_.substr(next_, size));
    next_ += size;
    return text;
  }
  float Float() { return std::bit_cast<float>(Word()); }
  uint8_t OneByte() { return static_cast<uint8_t>(Byte()); }
  uint32_t Word() {
    uint32_t word = 0;
    for (int shift = 0; shift < 32; shift += 8) {
      word |= static_cast<uint32_t>(Byte()) << shift;
    }
    return word;
  }
  uint64_t Checked(uint64_t value, bool right) {
    ok_ = ok_ && right;
    return ok_ ? value : 0;
  }
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && left() == 0; }

 private:
  size_t left() const { return bytes_.size() - next_; }
  uint64_t Byte() {
    if (next_ == bytes_.size()) return Checked(0, false);
    return static_cast<unsigned char>(bytes_[next_++]);
  }

  std::string_view bytes_;
  size_t next_ = 0;
  bool ok_ = true;
};

void WriteScores(const BandScores& scores, size_t num_picks, ByteWriter& to) {
  if (num_picks == 0) return;
  to.Number(scores.steps.empty() ? 0 : 1);
  if (scores.steps.empty()) return;
  CHECK(scores.steps.size() == num_picks, "scores={} picks={}",
        scores.steps.size(), num_picks);
  to.Float(scores.least);
  to.Float(scores.most);
  for (const uint8_t step : scores.steps) to.Byte(step);
}

void WriteList(const TraceHeader& header, const TraceList& list,
               ByteWriter& to) {
  to.Number(list.reads_all ? 0 : 1);
  if (list.reads_all) return;
  CHECK(list.bands.size() == header.levels.size() &&
            list.scores.size() == header.levels.size(),
        "bands={} scores={} levels={}", list.bands.size(), list.scores.size(),
        header.levels.size());
  for (size_t level = 0; level < list.bands.size(); ++level) {
    const std::vector<Pick>& band = list.bands[level];
    to.Number(band.size());
    uint32_t page = 0;
    for (const Pick& pick : band) {
      const auto coded = std::ranges::find(kCodedTokens, pick.tokens);
      const auto code = static_cast<uint64_t>(coded - kCodedTokens.begin());
      to.Number(kNumCodes * (pick.page - page) + code);
      if (code == kMaskCode) to.Word(pick.tokens);
      page = pick.page;
    }
    WriteScores(list.scores[level], band.size(), to);
  }
}

// What a row sees, of all that it may name.
struct RowReach {
  uint64_t position = 0;

  uint64_t last_page() const { return position / kPageTokens; }
  bool Sees(uint64_t page, uint32_t tokens) const {
    if (page < last_page()) return true;
    const uint64_t behind = kPageTokens - 1 - position % kPageTokens;
    return page == last_page() && (tokens & ~(~uint32_t{0} >> behind)) == 0;
  }
};

std::vector<Pick> ReadBand(const RowReach& reach, ByteReader& from) {
  std::vector<Pick> band(from.Count(reach.last_page() + 1));
  uint64_t page = 0;
  for (size_t i = 0; i < band.size() && from.ok(); ++i) {
    const uint64_t word =
        from.Number(kNumCodes * reach.last_page() + kMaskCode);
    from.Checked(0, i == 0 || word >= kNumCodes);
    page += word / kNumCodes;
    const uint64_t code = word % kNumCodes;
    const uint32_t tokens = code == kMaskCode
                                ? from.Word()
                                : kCodedTokens[static_cast<size_t>(code)];
    from.Checked(0, tokens != 0 && reach.Sees(page, tokens));
    band[i] = {static_cast<uint32_t>(page), tokens};
  }
  return band;
}

BandScores ReadScores(size_t num_picks, ByteReader& from) {
  BandScores scores;
  if (num_picks == 0 || from.Number(1) == 0) return scores;
  scores.least = from.Float();
  scores.most = from.Float();
  from.Checked(0, std::isfinite(scores.least) && std::isfinite(scores.most) &&
                      scores.least <= scores.most);
  for (size_t i = 0; i < num_picks && from.ok(); ++i) {
    scores.steps.push_back(from.OneByte());
  }
  return scores;
}

TraceList ReadList(const TraceHeader& header, const RowReach& reach,
                   ByteReader& from) {
  TraceList list;
  list.reads_all = from.Number(1) == 0;
  if (list.reads_all) return list;
  for (size_t level = 0; level < header.levels.size(); ++level) {
    list.bands.push_back(ReadBand(reach, from));
    list.scores.push_back(ReadScores(list.bands.back().size(), from));
  }
  return list;
}

TraceRowLists ReadRowLists(const TraceHeader& header, const RowReach& reach,
                           ByteReader& from) {
  const size_t num_lists = from.Count(kMaxHeads);
  const auto count = static_cast<int>(num_lists);
  from.Checked(0, count == 1 || count == header.num_kv_heads ||
                      count == header.num_q_heads);
  TraceRowLists lists;
  for (size_t i = 0; i < num_lists && from.ok(); ++i) {
    lists.push_back(ReadList(header, reach, from));
  }
  return lists;
}

}  // namespace

std::string EncodeHeader(const TraceHeader& header) {
  ByteWriter to;
  to.Text(header.model);
  to.Text(header.select);
  to.Number(static_cast<uint64_t>(header.num_q_heads));
  to.Number(static_cast<uint64_t>(header.num_kv_heads));
  to.Number(static_cast<uint64_t>(header.head_dim));
  to.Number(static_cast<uint64_t>(header.kv_element_bytes));
  to.Number(static_cast<uint64_t>(header.summary_bytes));
  to.Number(header.chooses.size());
  for (const bool chooses : header.chooses) to.Number(chooses ? 1 : 0);
  to.Number(header.levels.size());
  int level = 0;
  for (const int next : header.levels) {
    CHECK(next > level, "level={} behind {}", next, level);
    to.Number(static_cast<uint64_t>(next - level));
    level = next;
  }
  return to.Take();
}

std::optional<TraceHeader> DecodeHeader(std::string_view bytes) {
  ByteReader from(bytes);
  TraceHeader header;
  header.model = from.Text();
  header.select = from.Text();
  header.num_q_heads = static_cast<int>(from.Number(kMaxHeads));
  header.num_kv_heads = static_cast<int>(from.Number(kMaxHeads));
  header.head_dim = static_cast<int>(from.Number(1 << 16));
  header.kv_element_bytes = static_cast<int>(from.Number(16));
  header.summary_bytes = static_cast<int64_t>(from.Number(uint64_t{1} << 40));
  const size_t num_layers = from.Count(kMaxLayers);
  for (size_t i = 0; i < num_layers; ++i) {
    header.chooses.push_back(from.Number(1) == 1);
  }
  const size_t num_levels = from.Count(kMaxLevels);
  uint64_t level = 0;
  for (size_t i = 0; i < num_levels; ++i) {
    const uint64_t step = from.Number(kMaxLevel);
    level = from.Checked(level + step, step > 0 && level + step <= kMaxLevel);
    header.levels.push_back(static_cast<int>(level));
  }
  const bool has_sizes = header.num_kv_heads > 0 &&
                         header.num_q_heads % header.num_kv_heads == 0 &&
                         header.num_q_heads > 0 && header.head_dim > 0 &&
                         header.kv_element_bytes > 0;
  if (!from.AtEnd() || !has_sizes ||
      std::ranges::find(header.levels, kBudgetLevel) == header.levels.end()) {
    return std::nullopt;
  }
  return header;
}

std::string EncodeRequest(const TraceHeader& header,
                          const TraceRequest& request) {
  ByteWriter to;
  to.Text(request.task);
  to.Text(request.origin);
  to.Number(request.answered_right ? 1 : 0);
  to.Number(static_cast<uint64_t>(request.first_position));
  to.Number(request.steps.size());
  for (const TraceStep& step : request.steps) {
    to.Number(static_cast<uint64_t>(step.num_rows));
    CHECK(static_cast<int>(step.layers.size()) == header.num_choosing_layers(),
          "layers={} of {}", step.layers.size(), header.num_choosing_layers());
    for (const auto& rows : step.layers) {
      CHECK(static_cast<int>(rows.size()) == step.num_rows, "rows={} of {}",
            rows.size(), step.num_rows);
      for (const TraceRowLists& lists : rows) {
        to.Number(lists.size());
        for (const TraceList& list : lists) WriteList(header, list, to);
      }
    }
  }
  return to.Take();
}

std::optional<TraceRequest> DecodeRequest(const TraceHeader& header,
                                          std::string_view bytes) {
  ByteReader from(bytes);
  TraceRequest request;
  request.task = from.Text();
  request.origin = from.Text();
  request.answered_right = from.Number(1) == 1;
  request.first_position = static_cast<int64_t>(from.Number(kMaxPosition));
  const size_t num_steps = from.Count(kMaxPosition);
  const auto num_layers = static_cast<size_t>(header.num_choosing_layers());
  auto position = static_cast<uint64_t>(request.first_position);
  for (size_t i = 0; i < num_steps && from.ok(); ++i) {
    TraceStep& step = request.steps.emplace_back();
    // Without a layer that chooses there is nothing to record.
    const size_t num_rows = from.Count(num_layers == 0 ? 0 : kMaxRows);
    from.Checked(0, num_rows > 0);
    step.num_rows = static_cast<int>(num_rows);
    step.layers.resize(num_layers);
    for (auto& rows : step.layers) {
      for (size_t row = 0; row < num_rows && from.ok(); ++row) {
        rows.push_back(ReadRowLists(header, {position + row}, from));
      }
    }
    position += num_rows;
  }
  if (!from.AtEnd()) return std::nullopt;
  return request;
}

}  // namespace winnow
