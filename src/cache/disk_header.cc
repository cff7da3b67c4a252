#include "cache/disk_header.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/check.h"
#include "base/size_text.h"

namespace winnow {
namespace {

constexpr char kName[] = "header";
// Of the header, the trailers and where they lie.
constexpr int kVersion = 1;

using Fields = std::map<std::string, std::string, std::less<>>;

std::string Text(const DiskHeader& header, const DiskFolderId& id) {
  return fmt::format(
      "version {}\nfolder {:016x}{:016x}\npiece_bytes {}\nkey {}\n", kVersion,
      id[0], id[1], header.piece_bytes, header.key);
}

// Of text that anybody may have written, what fits a line.
std::string Shown(std::string_view text) {
  constexpr size_t kMostShown = 200;
  std::string shown(text.substr(0, std::min(text.find('\n'), kMostShown)));
  std::ranges::replace_if(
      shown, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return shown;
}

// Lines of a name, a space and a value.
Fields FieldsOf(const std::string& text) {
  Fields fields;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const size_t space = text.find(' ', begin);
    if (space < end) {
      fields[text.substr(begin, space - begin)] =
          text.substr(space + 1, end - space - 1);
    }
    begin = end + 1;
  }
  return fields;
}

Status CheckField(const BlockFolder& folder, const Fields& fields,
                  std::string_view name, const std::string& wanted) {
  const auto found = fields.find(name);
  const std::string value = found == fields.end() ? "" : found->second;
  if (value == wanted) return Ok{};
  return MakeError(ErrorCode::kUnsupported,
                   "{}/{}: {} must be \"{}\", is \"{}\"; a folder keeps the KV "
                   "of one model: give another, or remove this one",
                   folder.path(), kName, name, wanted, Shown(value));
}

}  // namespace

Result<DiskFolderId> OpenHeader(BlockFolder& folder, const DiskHeader& header) {
  CHECK(std::ranges::all_of(header.key,
                            [](unsigned char c) { return c >= 0x20; }),
        "key=\"{}\"", header.key);
  const Result<std::string> text = folder.ReadSmall(kName);
  if (!text.ok() && text.error().code != ErrorCode::kNotFound) {
    return text.error();
  }
  // An empty one was being written when the machine died: before any block.
  if (!text.ok() || text->empty()) {
    ASSIGN_OR_RETURN(const int64_t num_bytes, folder.num_bytes());
    if (num_bytes > 0) {
      return MakeError(ErrorCode::kUnsupported,
                       "{}: has blocks of {} and no header that says what they "
                       "are: give a folder without, or an empty one",
                       folder.path(), FormatBytes(num_bytes));
    }
    const DiskFolderId id = {DrawNumber(), DrawNumber()};
    RETURN_IF_ERROR(folder.WriteSmall(kName, Text(header, id)));
    return id;
  }
  const Fields fields = FieldsOf(*text);
  if (!text->starts_with("version ")) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}/{}: must begin with \"version\", begins with \"{}\": "
                     "give another folder, or remove this one",
                     folder.path(), kName, Shown(*text));
  }
  RETURN_IF_ERROR(
      CheckField(folder, fields, "version", fmt::format("{}", kVersion)));
  RETURN_IF_ERROR(CheckField(folder, fields, "key", header.key));
  RETURN_IF_ERROR(CheckField(folder, fields, "piece_bytes",
                             fmt::format("{}", header.piece_bytes)));
  const auto found = fields.find("folder");
  const std::string digits = found == fields.end() ? "" : found->second;
  DiskFolderId id = {};
  for (size_t i = 0; i < id.size() && digits.size() == 32; ++i) {
    const char* begin = digits.data() + i * 16;
    const auto parsed = std::from_chars(begin, begin + 16, id[i], 16);
    if (parsed.ptr != begin + 16) id = {};
  }
  if (*text != Text(header, id)) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}/{}: folder must be 32 hexadecimal digits, is \"{}\"; "
                     "remove the folder to begin it anew",
                     folder.path(), kName, digits);
  }
  return id;
}

}  // namespace winnow
