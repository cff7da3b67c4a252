// The C interface of the Rust library winnow_text: tokenizers, chat templates
// and grammars.
//
// Every function that can fail returns a WinnowTextCode. If it is not 0, *error
// holds one line of UTF-8 and the other outputs are untouched. Inputs are only
// read, and only during the call. Nothing unwinds out of a function. If memory
// ends and the `give` function below returns false, the process ends with one
// line and status 1. Threads may share handles, except WinnowDetokenizer and
// WinnowMatcher.
#ifndef WINNOW_TEXT_RUST_WINNOW_TEXT_H_
#define WINNOW_TEXT_RUST_WINNOW_TEXT_H_

#include <cstddef>
#include <cstdint>

extern "C" {

enum WinnowTextCode {
  kWinnowTextOk = 0,
  kWinnowTextInvalidArgument = 1,
  kWinnowTextNotFound = 2,
  kWinnowTextCorrupt = 3,
  kWinnowTextResourceExhausted = 4,
  kWinnowTextCancelled = 5,
  kWinnowTextIo = 6,
};

// Bytes of the caller. data may be NULL: absent.
struct WinnowSlice {
  const char* data;
  size_t size;
};

// A file's content, and its name for messages. Absent if text.data is NULL.
struct WinnowNamedText {
  WinnowSlice name;
  WinnowSlice text;
};

// Bytes of the library. Release with winnow_text_free.
struct WinnowOwnedText {
  char* data;
  size_t size;
};

// Ids of the library. Release with winnow_ids_free.
struct WinnowOwnedIds {
  int32_t* data;
  size_t size;
};

// The files that a folder may have beside tokenizer.json.
struct WinnowTokenFiles {
  WinnowNamedText config;       // tokenizer_config.json
  WinnowNamedText special_map;  // special_tokens_map.json
  WinnowNamedText added;        // added_tokens.json
};

// The text that a token would add as the next one.
struct WinnowTokenAddition {
  WinnowOwnedText text;   // certain text
  WinnowOwnedText bytes;  // its own bytes
  bool is_skipped;        // no token, or a special token that is skipped
  bool is_open;           // more text would be held back
};

// The arguments of one rendering of a chat template.
struct WinnowChatInput {
  WinnowSlice messages;  // a JSON array
  WinnowSlice extra;     // a JSON object with more variables; or absent
  int64_t now_unix_s;    // the time that the template's clock shows
  bool add_generation_prompt;
  bool continue_last;  // true: the text ends inside the last message
};

// A template beside the main one.
struct WinnowNamedTemplate {
  WinnowSlice name;
  WinnowNamedText file;
};

// The files on which a chat's text depends; each may be absent.
struct WinnowTemplateFiles {
  WinnowNamedText jinja;        // chat_template.jinja
  WinnowNamedText config;       // tokenizer_config.json
  WinnowNamedText special_map;  // special_tokens_map.json
  const WinnowNamedTemplate* additional;
  size_t num_additional;
};

// The form of a grammar's text.
enum WinnowGrammarKind {
  kWinnowGrammarJsonSchema = 0,  // JSON
  kWinnowGrammarRegex = 1,       // matches the whole text
  kWinnowGrammarChoice = 2,      // a JSON array of strings
  kWinnowGrammarLark = 3,        // llguidance's Lark
  // A JSON object: "lark" is a grammar around the values, and "schemas" maps
  // NAME to the schema of "@NAME" in it. "otherwise", which may be absent, is
  // {"kind", "source"} of a grammar of another kind, "@otherwise" in it.
  kWinnowGrammarCalls = 4,
};

// The treatment of a schema's keywords that no grammar can hold.
enum WinnowUnheld {
  kWinnowUnheldRefused = 0,
  kWinnowUnheldLeftOut = 1,
  // As kWinnowUnheldLeftOut. Further keywords are left out until the rest
  // compiles.
  kWinnowUnheldFitted = 2,
};

// Limits of grammars. Too many bytes or brackets end with
// kWinnowTextResourceExhausted, other excesses with kWinnowTextInvalidArgument.
struct WinnowGrammarLimits {
  size_t max_bytes;           // of a grammar's text
  uint64_t max_compile_work;  // nodes of regular expressions, for compiling
  uint64_t max_mask_work;     // the same, for one mask
  size_t max_states;          // of a matcher and its clones: 1 to 2 KiB each
  uint64_t max_mask_us;       // of a thread's time, on average
};

struct WinnowTokenizer;
struct WinnowDetokenizer;
struct WinnowChatTemplate;
struct WinnowVocabulary;
struct WinnowMatcher;

// Sets the function that is called if memory ends, from any thread. The library
// repeats the allocation while `give` returns true. `give` allocates nothing.
void winnow_text_ask_where_memory_ends(bool (*give)());

void winnow_text_free(WinnowOwnedText text);
void winnow_ids_free(WinnowOwnedIds ids);

// Fails, with the offset of the first bad byte, if `text` is not UTF-8.
int32_t winnow_text_check_utf8(WinnowSlice text, WinnowOwnedText* error);

// `json` is tokenizer.json.
int32_t winnow_tokenizer_load(WinnowNamedText json, WinnowTokenFiles files,
                              WinnowTokenizer** out, WinnowOwnedText* error);
void winnow_tokenizer_free(WinnowTokenizer* tokenizer);
// Stops with kWinnowTextCancelled once *is_left, one byte that another thread
// may set, is not 0. NULL: never stops.
int32_t winnow_tokenizer_encode(const WinnowTokenizer* tokenizer,
                                WinnowSlice text, bool add_special_tokens,
                                const void* is_left, WinnowOwnedIds* out,
                                WinnowOwnedText* error);
int32_t winnow_tokenizer_decode(const WinnowTokenizer* tokenizer,
                                const int32_t* ids, size_t num_ids,
                                bool skip_special_tokens, WinnowOwnedText* out,
                                WinnowOwnedText* error);
// One more than the highest id; 0 without tokens.
int32_t winnow_tokenizer_id_limit(const WinnowTokenizer* tokenizer);
// The greatest number of text bytes that one token stands for; 0: unbounded.
size_t winnow_tokenizer_max_token_bytes(const WinnowTokenizer* tokenizer);
// The ids of the files' bos_token and eos_token, or -1.
int32_t winnow_tokenizer_bos(const WinnowTokenizer* tokenizer);
int32_t winnow_tokenizer_eos(const WinnowTokenizer* tokenizer);
// One line for each part of the files that was left out; may be empty.
WinnowOwnedText winnow_tokenizer_notes(const WinnowTokenizer* tokenizer);
// The id of a token, or -1.
int32_t winnow_tokenizer_id_of(const WinnowTokenizer* tokenizer,
                               WinnowSlice token);
bool winnow_tokenizer_is_special(const WinnowTokenizer* tokenizer, int32_t id);
// False, with *out untouched, if no token has this id.
bool winnow_tokenizer_token_text(const WinnowTokenizer* tokenizer, int32_t id,
                                 WinnowOwnedText* out);

// Keeps the parts of `tokenizer` that it needs; `tokenizer` may be freed first.
WinnowDetokenizer* winnow_detokenizer_create(const WinnowTokenizer* tokenizer,
                                             bool skip_special_tokens);
// A detokenizer at the same position.
WinnowDetokenizer* winnow_detokenizer_clone(
    const WinnowDetokenizer* detokenizer);
void winnow_detokenizer_free(WinnowDetokenizer* detokenizer);
// True if the next token begins a text and is spelled differently for it.
bool winnow_detokenizer_begins(const WinnowDetokenizer* detokenizer);
// True if the decoder puts spaces between tokens.
bool winnow_detokenizer_puts_spaces(const WinnowDetokenizer* detokenizer);
// Continues behind `ids`, whose text is not returned. REQUIRES: nothing was
// pushed.
int32_t winnow_detokenizer_follow(WinnowDetokenizer* detokenizer,
                                  const int32_t* ids, size_t num_ids,
                                  WinnowOwnedText* error);
// Changes nothing. Release both texts of *out with winnow_text_free.
int32_t winnow_detokenizer_peek(const WinnowDetokenizer* detokenizer,
                                int32_t id, WinnowTokenAddition* out,
                                WinnowOwnedText* error);
int32_t winnow_detokenizer_push(WinnowDetokenizer* detokenizer, int32_t id,
                                WinnowOwnedText* out, WinnowOwnedText* error);
int32_t winnow_detokenizer_finish(WinnowDetokenizer* detokenizer,
                                  WinnowOwnedText* out, WinnowOwnedText* error);

int32_t winnow_chat_template_load(WinnowTemplateFiles files,
                                  WinnowChatTemplate** out,
                                  WinnowOwnedText* error);
void winnow_chat_template_free(WinnowChatTemplate* chat_template);
// The source of the template that renders chats with tools.
WinnowOwnedText winnow_chat_template_tool_source(
    const WinnowChatTemplate* chat_template);
// One line for each template that cannot be used, and one if there is no
// default.
WinnowOwnedText winnow_chat_template_complaints(
    const WinnowChatTemplate* chat_template);
// kWinnowTextNotFound: with `continue_last`, if the last message has no text or
// the template does not write it.
int32_t winnow_chat_template_render(const WinnowChatTemplate* chat_template,
                                    WinnowChatInput input, WinnowOwnedText* out,
                                    WinnowOwnedText* error);

// Covers the ids below `vocab_size`; `ends` are the tokens that end a text.
// Keeps nothing of `tokenizer`.
int32_t winnow_vocabulary_create(const WinnowTokenizer* tokenizer,
                                 size_t vocab_size, const int32_t* ends,
                                 size_t num_ends, WinnowGrammarLimits limits,
                                 WinnowVocabulary** out,
                                 WinnowOwnedText* error);
void winnow_vocabulary_free(WinnowVocabulary* vocabulary);

// Splits a JSON schema into the part that a grammar can hold and the rest:
// {"schema": the held part, "unheld": ["properties.name.keyword", ...]}.
// References of the result lie within its "$defs". Fails if a reference leads
// out of the schema or nowhere. `rest` is a WinnowUnheld. A text that is not a
// schema may come back as it is.
int32_t winnow_schema_hold(WinnowSlice schema, int32_t rest,
                           WinnowOwnedText* out, WinnowOwnedText* error);

// A matcher at the beginning of an answer, which `begins` a text or follows
// one. May outlive `vocabulary`. `white_space` is a regular expression for the
// white space between the tokens of a schema's value. NULL: the default; "":
// none.
int32_t winnow_matcher_create(const WinnowVocabulary* vocabulary, int32_t kind,
                              WinnowSlice grammar, WinnowSlice white_space,
                              bool begins, WinnowMatcher** out,
                              WinnowOwnedText* error);
// A matcher at the same position. One thread at a time uses a matcher and all
// its clones.
WinnowMatcher* winnow_matcher_clone(const WinnowMatcher* matcher);
void winnow_matcher_free(WinnowMatcher* matcher);
// Sets bit i % 32 of word i / 32 if token i may come next. If no token may, or
// on an error, all bits are 0 and later calls fail.
int32_t winnow_matcher_mask(WinnowMatcher* matcher, uint32_t* words,
                            size_t num_words, WinnowOwnedText* error);
// Advances behind the token. Fails if the token may not come next.
int32_t winnow_matcher_accept(WinnowMatcher* matcher, int32_t id,
                              WinnowOwnedText* error);
// True if nothing may follow, or if the matcher has failed.
bool winnow_matcher_is_complete(const WinnowMatcher* matcher);

}  // extern "C"

#endif  // WINNOW_TEXT_RUST_WINNOW_TEXT_H_
