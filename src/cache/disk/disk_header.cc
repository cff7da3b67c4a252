#include "cache/disk/disk_header.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/size_text.h"

namespace winnow {
namespace {

// Lines of a name, a space and a value; behind the line "made_with" a JSON
// object of text alone, so that both people and programs can compare two.
constexpr char kName[] = "header";
constexpr std::string_view kMadeWith = "\nmade_with\n";
// Of the header, the trailers and where they lie. 1 had one line of all that
// the KV was made with, in which samples stood for the weights.
constexpr int kVersion = 2;
constexpr size_t kMostNamed = 4;

using Fields = std::map<std::string, std::string, std::less<>>;
using Json = nlohmann::ordered_json;

std::string Text(const DiskHeader& header, const DiskFolderId& id) {
  Json made_with = Json::object();
  for (const auto& [name, value] : header.made_with) made_with[name] = value;
  return fmt::format(
      "version {}\nfolder {:016x}{:016x}\npiece_bytes {}{}{}\n", kVersion,
      id[0], id[1], header.piece_bytes, kMadeWith,
      made_with.dump(1, ' ', false, Json::error_handler_t::replace));
}

// Of text that anybody may have written, what fits a line.
std::string Shown(std::string_view text) {
  constexpr size_t kMostShown = 80;
  std::string shown(text.substr(0, std::min(text.find('\n'), kMostShown)));
  if (shown.size() < text.size()) shown += "...";
  std::ranges::replace_if(
      shown, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return shown;
}

// Lines of a name, a space and a value.
Fields FieldsOf(std::string_view text) {
  Fields fields;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const size_t space = text.find(' ', begin);
    if (space < end) {
      fields[std::string(text.substr(begin, space - begin))] =
          text.substr(space + 1, end - space - 1);
    }
    begin = end + 1;
  }
  return fields;
}

// What stands there of its values; nothing where it is damaged.
std::optional<Fields> MadeWithOf(std::string_view text) {
  const size_t at = text.find(kMadeWith);
  if (at == std::string_view::npos) return std::nullopt;
  const Json object = Json::parse(text.substr(at + kMadeWith.size()), nullptr,
                                  /*allow_exceptions=*/false);
  if (!object.is_object()) return std::nullopt;
  Fields fields;
  for (const auto& [name, value] : object.items()) {
    if (!value.is_string()) return std::nullopt;
    fields[name] = value.get<std::string>();
  }
  return fields;
}

Error Damaged(const BlockFolder& folder, std::string_view what) {
  return MakeError(ErrorCode::kCorrupt,
                   "{}/{}: {}: give another folder, or empty this one",
                   folder.path(), kName, what);
}

std::string Quoted(const Fields& fields, std::string_view name) {
  const auto found = fields.find(name);
  return found == fields.end() ? std::string("nothing of that name")
                               : "\"" + Shown(found->second) + "\"";
}

// One error for all values that differ: the first in full, others by name.
Status CheckMadeWith(const BlockFolder& folder, const Fields& found,
                     const DiskHeader& header) {
  Fields wanted;
  std::vector<std::string> names;
  for (const auto& [name, value] : header.made_with) {
    wanted[name] = value;
    const auto other = found.find(name);
    if (other == found.end() || other->second != value) names.push_back(name);
  }
  for (const auto& [name, value] : found) {
    if (!wanted.contains(name)) names.push_back(name);
  }
  if (names.empty()) return Ok{};
  std::string others;
  for (size_t i = 1; i < std::min(names.size(), kMostNamed); ++i) {
    others += (i == 1 ? "; so differ " : ", ") + Shown(names[i]);
  }
  if (names.size() > kMostNamed) {
    others += fmt::format(" and {} more", names.size() - kMostNamed);
  }
  return MakeError(
      ErrorCode::kUnsupported,
      "{}: {}: the folder's KV was made with {}, this model has {}{}; a folder "
      "keeps the KV of one model: give another, or empty this one",
      folder.path(), Shown(names[0]), Quoted(found, names[0]),
      Quoted(wanted, names[0]), others);
}

Status CheckVersion(const BlockFolder& folder, const std::string& text,
                    const Fields& fields) {
  if (!text.starts_with("version ")) {
    return Damaged(folder, fmt::format("must begin with \"version\", begins "
                                       "with \"{}\"",
                                       Shown(text)));
  }
  const std::string& version = fields.at("version");
  if (version == fmt::format("{}", kVersion)) return Ok{};
  const bool is_older = version == "1";
  return MakeError(
      ErrorCode::kUnsupported,
      "{}/{}: version must be {}, is {}{}; give another folder, or empty this "
      "one",
      folder.path(), kName, kVersion, Shown(version),
      is_older ? ", which does not say all that its KV was made with" : "");
}

// Zeros where it is no id.
DiskFolderId IdOf(std::string_view digits) {
  DiskFolderId id = {};
  for (size_t i = 0; i < id.size() && digits.size() == 32; ++i) {
    const char* begin = digits.data() + i * 16;
    const auto parsed = std::from_chars(begin, begin + 16, id[i], 16);
    if (parsed.ptr != begin + 16) return {};
  }
  return id;
}

Result<DiskFolderId> BeginFolder(BlockFolder& folder,
                                 const DiskHeader& header) {
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

}  // namespace

Result<DiskFolderId> OpenHeader(BlockFolder& folder, const DiskHeader& header) {
  const Result<std::string> text = folder.ReadSmall(kName);
  if (!text.ok() && text.error().code != ErrorCode::kNotFound) {
    return text.error();
  }
  // An empty one was being written when the machine died: before any block.
  if (!text.ok() || text->empty()) return BeginFolder(folder, header);
  const Fields fields =
      FieldsOf(std::string_view(*text).substr(0, text->find(kMadeWith)));
  RETURN_IF_ERROR(CheckVersion(folder, *text, fields));
  const std::optional<Fields> made_with = MadeWithOf(*text);
  if (!made_with) return Damaged(folder, "made_with must be a JSON object");
  RETURN_IF_ERROR(CheckMadeWith(folder, *made_with, header));
  const std::string wanted = fmt::format("{}", header.piece_bytes);
  const auto piece_bytes = fields.find("piece_bytes");
  if (piece_bytes == fields.end() || piece_bytes->second != wanted) {
    return Damaged(folder, fmt::format("piece_bytes must be \"{}\", is {}",
                                       wanted, Quoted(fields, "piece_bytes")));
  }
  const DiskFolderId id =
      fields.contains("folder") ? IdOf(fields.at("folder")) : DiskFolderId{};
  if (*text != Text(header, id)) {
    return Damaged(folder, fmt::format("folder must be 32 hexadecimal digits, "
                                       "is {}",
                                       Quoted(fields, "folder")));
  }
  return id;
}

}  // namespace winnow
