#include "text/tokenize/tokenizer.h"

#include <sstream>
#include <utility>

#include "base/file.h"
#include "text/rust_text.h"

namespace winnow {
namespace {

using internal::kCallBytes;
using internal::kMaxTokenizerConfigBytes;
using internal::NamedTextOf;
using internal::RoomForCall;
using internal::SliceOf;
using internal::TakeError;
using internal::TakeText;

constexpr const char* kTokenizerName = "tokenizer.json";
constexpr const char* kConfigName = "tokenizer_config.json";
constexpr const char* kSpecialMapName = "special_tokens_map.json";
constexpr const char* kAddedName = "added_tokens.json";
// Larger files than any in use: 262,144 tokens take 33 MB.
constexpr size_t kMaxTokenizerBytes = size_t{256} << 20;
// What encoding takes for a byte of text, and decoding for an id.
constexpr size_t kEncodingBytes = 400;
constexpr size_t kDecodingBytes = 512;
// So few ids are decoded within what a thread that answers may take.
constexpr size_t kFewIds = 256;

std::optional<int64_t> SizeOrNone(size_t size) {
  return size == 0 ? std::nullopt : std::optional(static_cast<int64_t>(size));
}

std::optional<int32_t> IdOrNone(int32_t id) {
  return id < 0 ? std::nullopt : std::optional(id);
}

}  // namespace

void Tokenizer::Free::operator()(WinnowTokenizer* tokenizer) const {
  winnow_tokenizer_free(tokenizer);
}

Tokenizer::Tokenizer(Handle handle, std::string name)
    : handle_(std::move(handle)),
      name_(std::move(name)),
      vocab_size_(winnow_tokenizer_id_limit(handle_.get())),
      max_token_bytes_(
          SizeOrNone(winnow_tokenizer_max_token_bytes(handle_.get()))),
      bos_id_(IdOrNone(winnow_tokenizer_bos(handle_.get()))),
      eos_id_(IdOrNone(winnow_tokenizer_eos(handle_.get()))) {}

Result<Tokenizer> Tokenizer::Load(const std::filesystem::path& folder) {
  ASSIGN_OR_RETURN(const std::string json,
                   ReadFile(folder / kTokenizerName, kMaxTokenizerBytes));
  const auto read = [&folder](const char* name) {
    return internal::ReadIfThere(folder / name, kMaxTokenizerConfigBytes);
  };
  ASSIGN_OR_RETURN(const auto config, read(kConfigName));
  OlderTokenFiles older;
  ASSIGN_OR_RETURN(older.special_map_json, read(kSpecialMapName));
  ASSIGN_OR_RETURN(older.added_json, read(kAddedName));
  return FromJson(folder, json, config, older);
}

Result<Tokenizer> Tokenizer::FromJson(
    const std::filesystem::path& folder, const std::string& tokenizer_json,
    const std::optional<std::string>& tokenizer_config_json,
    const OlderTokenFiles& older) {
  winnow_text_ask_where_memory_ends(&GiveMemoryAway);
  const std::string name = (folder / kTokenizerName).string();
  const std::string config_name = (folder / kConfigName).string();
  const std::string special_map_name = (folder / kSpecialMapName).string();
  const std::string added_name = (folder / kAddedName).string();
  WinnowTokenizer* tokenizer = nullptr;
  WinnowOwnedText message{};
  const int32_t code = winnow_tokenizer_load(
      NamedTextOf(name, tokenizer_json),
      {.config = NamedTextOf(config_name, tokenizer_config_json),
       .special_map = NamedTextOf(special_map_name, older.special_map_json),
       .added = NamedTextOf(added_name, older.added_json)},
      &tokenizer, &message);
  if (code != kWinnowTextOk) return TakeError(code, message);
  return Tokenizer(Handle(tokenizer), name);
}

std::vector<std::string> Tokenizer::Notes() const {
  std::vector<std::string> notes;
  std::istringstream lines(TakeText(winnow_tokenizer_notes(handle_.get())));
  for (std::string line; std::getline(lines, line);) notes.push_back(line);
  return notes;
}

Status Tokenizer::CheckText(std::string_view text) {
  return internal::CheckUtf8("text", text);
}

Result<std::vector<int32_t>> Tokenizer::Encode(
    std::string_view text, bool add_special_tokens,
    const std::atomic<bool>* is_left) const {
  static_assert(sizeof(*is_left) == 1 && std::atomic<bool>::is_always_lock_free,
                "as the Rust library reads it");
  RETURN_IF_ERROR(CheckText(text));
  ASSIGN_OR_RETURN(const auto room,
                   RoomForCall(fmt::format("text of {} bytes", text.size()),
                               kCallBytes + kEncodingBytes * text.size()));
  WinnowOwnedIds ids{};
  WinnowOwnedText message{};
  const int32_t code =
      winnow_tokenizer_encode(handle_.get(), SliceOf(text), add_special_tokens,
                              is_left, &ids, &message);
  if (code != kWinnowTextOk) {
    const Error error = TakeError(code, message);
    return MakeError(error.code, "{}: {}", name_, error.message);
  }
  const struct Owner {
    ~Owner() { winnow_ids_free(ids); }
    const WinnowOwnedIds ids;
  } owner{ids};
  return std::vector<int32_t>(ids.data, ids.data + ids.size);
}

Result<std::string> Tokenizer::Decode(std::span<const int32_t> ids,
                                      bool skip_special_tokens) const {
  std::unique_ptr<MemoryReservation> room;
  if (ids.size() > kFewIds) {
    ASSIGN_OR_RETURN(room,
                     RoomForCall(fmt::format("text of {} tokens", ids.size()),
                                 kCallBytes + kDecodingBytes * ids.size()));
  }
  WinnowOwnedText text{};
  WinnowOwnedText message{};
  const int32_t code =
      winnow_tokenizer_decode(handle_.get(), ids.data(), ids.size(),
                              skip_special_tokens, &text, &message);
  if (code == kWinnowTextOk) return TakeText(text);
  const Error error = TakeError(code, message);
  return MakeError(error.code, "{}: {}", name_, error.message);
}

std::optional<std::string> Tokenizer::TokenText(int32_t id) const {
  WinnowOwnedText text{};
  if (!winnow_tokenizer_token_text(handle_.get(), id, &text)) {
    return std::nullopt;
  }
  return TakeText(text);
}

std::optional<int32_t> Tokenizer::IdOf(std::string_view token) const {
  return IdOrNone(winnow_tokenizer_id_of(handle_.get(), SliceOf(token)));
}

bool Tokenizer::IsSpecial(int32_t id) const {
  return winnow_tokenizer_is_special(handle_.get(), id);
}

}  // namespace winnow
