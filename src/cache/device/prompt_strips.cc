#include "cache/device/prompt_strips.h"

#include <algorithm>
#include <utility>

#include "kv/layer_room.h"

namespace winnow {

DevicePageTableOptions TableOf(const StripPoolOptions& pool,
                               const PromptStripsOptions& options) {
  return {.max_requests = options.max_requests,
          .num_entries = options.num_table_pages,
          .num_extents = pool.num_extents * pool.num_layers};
}

Result<std::unique_ptr<PromptStrips>> PromptStrips::Create(
    Backend& backend, const StripPool& device, const HostPool& host,
    const PromptStripsOptions& options) {
  CHECK(options.row_bytes > 0, "row_bytes={}", options.row_bytes);
  const StripPoolOptions& pool = device.options();
  ASSIGN_OR_RETURN(DevicePageTable table,
                   DevicePageTable::Create(backend, TableOf(pool, options)));
  return std::unique_ptr<PromptStrips>(
      new PromptStrips(backend, device, host, options, std::move(table)));
}

PromptStrips::PromptStrips(Backend& backend, const StripPool& device,
                           const HostPool& host,
                           const PromptStripsOptions& options,
                           DevicePageTable table)
    : backend_(backend),
      device_(device),
      host_(host),
      options_(options),
      table_(std::move(table)) {
  const StripPoolOptions& pool = device.options();
  const LayerCache cache = {.format = pool.format,
                            .num_kv_heads = pool.num_kv_heads,
                            .strips = device.strips(0),
                            .extent_stride_bytes = device.strip_bytes(),
                            .page_table = table_.rows(),
                            .max_pages = options.max_pages_per_request};
  layers_.assign(static_cast<size_t>(pool.num_layers), cache);
}

uint32_t PromptStrips::StripNumber(const PromptPlaces& prompt,
                                   int64_t strip) const {
  const StripPlace place = PlaceOfStrip(strip, std::ssize(prompt.lent));
  CHECK(place.layer < device_.options().num_layers, "strip={} of {} extents",
        strip, prompt.lent.size());
  return device_.StripNumber(place.layer,
                             prompt.lent[static_cast<size_t>(place.extent)]);
}

void PromptStrips::WriteTables(Queue& queue, int layer,
                               std::span<const PromptPlaces> prompts) {
  std::vector<std::vector<ExtentId>> strips;
  for (const PromptPlaces& prompt : prompts) {
    std::vector<ExtentId>& row = strips.emplace_back();
    for (int64_t page = 0; page < std::ssize(prompt.hosts); ++page) {
      row.emplace_back(StripNumber(prompt, page));
    }
    for (const ExtentId extent : prompt.whole) {
      row.emplace_back(device_.StripNumber(layer, extent));
    }
  }
  const std::vector<std::span<const ExtentId>> rows(strips.begin(),
                                                    strips.end());
  table_.Write(queue, rows);
}

View PromptStrips::Near(const PromptPlaces& prompt, int64_t page) const {
  const int64_t strip_bytes = device_.strip_bytes();
  return MakeView(device_.strips(0) + StripNumber(prompt, page) * strip_bytes,
                  Dtype::kUInt8, {strip_bytes});
}

View PromptStrips::Far(const PromptPlaces& prompt, int64_t page,
                       int layer) const {
  const int64_t strip_bytes = device_.strip_bytes();
  return host_.Extent(prompt.hosts[static_cast<size_t>(page)])
      .Slice(layer * strip_bytes, strip_bytes);
}

void PromptStrips::CopyToHost(Queue& queue, const PromptPlaces& prompt,
                              int layer, int64_t first, int64_t end) const {
  const int64_t end_page =
      std::min<int64_t>(end / kPageTokens, std::ssize(prompt.hosts));
  for (int64_t page = first / kPageTokens; page < end_page; ++page) {
    backend_.Copy(queue, Near(prompt, page), Far(prompt, page, layer));
  }
}

void PromptStrips::CopyFromHost(Queue& queue, const PromptPlaces& prompt,
                                int layer, int64_t num_pages) const {
  for (int64_t page = 0; page < num_pages; ++page) {
    backend_.Copy(queue, Far(prompt, page, layer), Near(prompt, page));
  }
}

std::vector<View> PromptStrips::PiecesOf(const PromptPlaces& prompt,
                                         int64_t first,
                                         int64_t num_rows) const {
  const int64_t strip_bytes = device_.strip_bytes();
  std::vector<View> pieces;
  const int64_t end = (first + num_rows) * options_.row_bytes;
  int64_t next = 0;
  for (int64_t at = first * options_.row_bytes; at < end; at = next) {
    const int64_t strip = at / strip_bytes;
    next = std::min((strip + 1) * strip_bytes, end);
    std::byte* data =
        device_.strips(0) +
        StripNumber(prompt, std::ssize(prompt.hosts) + strip) * strip_bytes +
        at % strip_bytes;
    const bool goes_on =
        !pieces.empty() && pieces.back().data + pieces.back().dim(0) == data;
    if (goes_on) {
      pieces.back().shape[0] += next - at;
    } else {
      pieces.push_back(MakeView(data, Dtype::kUInt8, {next - at}));
    }
  }
  return pieces;
}

void PromptStrips::StoreRows(Queue& queue, const PromptPlaces& prompt,
                             int64_t first, const View& rows) const {
  std::byte* data = rows.data;
  for (const View& piece : PiecesOf(prompt, first, rows.dim(0))) {
    backend_.Copy(queue, MakeView(data, Dtype::kUInt8, {piece.dim(0)}), piece);
    data += piece.dim(0);
  }
}

void PromptStrips::LoadRows(Queue& queue, const PromptPlaces& prompt,
                            int64_t first, const View& rows) const {
  std::byte* data = rows.data;
  for (const View& piece : PiecesOf(prompt, first, rows.dim(0))) {
    backend_.Copy(queue, piece, MakeView(data, Dtype::kUInt8, {piece.dim(0)}));
    data += piece.dim(0);
  }
}

}  // namespace winnow
