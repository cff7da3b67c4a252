// The C interface of the Rust library winnow_text: tokenizers, chat templates
// and grammars.
//
// Every function that can fail returns a WinnowTextCode; where that is not 0,
// *error holds one line of UTF-8 and the other outputs are untouched. What is
// given is only read, during the call. Nothing unwinds out of a function.
// Where memory ends, and whoever is asked then gives none, so does the process,
// with one line and status 1.
// Handles may be shared by threads, but for WinnowDetokenizer and
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

// A file's content and the name that messages give it. Absent where
// text.data is NULL.
struct WinnowNamedText {
  WinnowSlice name;
  WinnowSlice text;
};

// Bytes of the library; given back by winnow_text_free.
struct WinnowOwnedText {
  char* data;
  size_t size;
};

// Ids of the library; given back by winnow_ids_free.
struct WinnowOwnedIds {
  int32_t* data;
  size_t size;
};

// What a folder may have beside tokenizer.json.
struct WinnowTokenFiles {
  WinnowNamedText config;       // tokenizer_config.json
  WinnowNamedText special_map;  // special_tokens_map.json
  WinnowNamedText added;        // added_tokens.json
};

// What a token would add to a text, were it the next.
struct WinnowTokenAddition {
  WinnowOwnedText text;   // that would be certain
  WinnowOwnedText bytes;  // its own
  bool is_skipped;        // it is no token, or special ones are skipped
  bool is_open;           // more text would be held back
};

// What one rendering of a chat template is about.
struct WinnowChatInput {
  WinnowSlice messages;  // a JSON array
  WinnowSlice extra;     // a JSON object: more variables; or absent
  int64_t now_unix_s;    // what the template's clock shows
  bool add_generation_prompt;
  bool continue_last;  // the text ends where the last message's does
};

// A template beside the main one.
struct WinnowNamedTemplate {
  WinnowSlice name;
  WinnowNamedText file;
};

// The files that a chat's text depends on; each may be absent.
struct WinnowTemplateFiles {
  WinnowNamedText jinja;        // chat_template.jinja
  WinnowNamedText config;       // tokenizer_config.json
  WinnowNamedText special_map;  // special_tokens_map.json
  const WinnowNamedTemplate* additional;
  size_t num_additional;
};

// What a grammar's text is.
enum WinnowGrammarKind {
  kWinnowGrammarJsonSchema = 0,  // JSON
  kWinnowGrammarRegex = 1,       // of all of the text
  kWinnowGrammarChoice = 2,      // a JSON array of strings
  kWinnowGrammarLark = 3,        // llguidance's Lark
  // {"lark": what goes around values, "schemas": {NAME: of "@NAME" in it},
  //  "otherwise": {"kind", "source"}: another kind's, "@otherwise" in it; or
  //  absent}
  kWinnowGrammarCalls = 4,
};

// What becomes of a schema's keywords that no answer can be held to.
enum WinnowUnheld {
  kWinnowUnheldRefused = 0,
  kWinnowUnheldLeftOut = 1,
  // And so are others, until what is left can be compiled.
  kWinnowUnheldFitted = 2,
};

// What grammars may take. A failure of these is kWinnowTextResourceExhausted
// where bytes or brackets are too many, else kWinnowTextInvalidArgument.
struct WinnowGrammarLimits {
  size_t max_bytes;           // of a grammar's text
  uint64_t max_compile_work;  // nodes of regular expressions, at the beginning
  uint64_t max_mask_work;     // the same, for one mask
  size_t max_states;          // of a matcher and its clones: 1 to 2 KiB each
  uint64_t max_mask_us;       // of a thread's time, in the mean
};

struct WinnowTokenizer;
struct WinnowDetokenizer;
struct WinnowChatTemplate;
struct WinnowVocabulary;
struct WinnowMatcher;

// From now on `give` is called where memory ends, from any thread, and what
// could not be allocated is tried again while it returns true. It allocates
// nothing.
void winnow_text_ask_where_memory_ends(bool (*give)());

void winnow_text_free(WinnowOwnedText text);
void winnow_ids_free(WinnowOwnedIds ids);

// Fails where `text` is not UTF-8, naming the offset of the first bad byte.
int32_t winnow_text_check_utf8(WinnowSlice text, WinnowOwnedText* error);

// `json`: tokenizer.json.
int32_t winnow_tokenizer_load(WinnowNamedText json, WinnowTokenFiles files,
                              WinnowTokenizer** out, WinnowOwnedText* error);
void winnow_tokenizer_free(WinnowTokenizer* tokenizer);
// Once *is_left, one byte that another thread may set, is not 0, it is given
// up: kWinnowTextCancelled. NULL: it is not.
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
// The most bytes of a text that one token stands for; 0: nothing bounds it.
size_t winnow_tokenizer_max_token_bytes(const WinnowTokenizer* tokenizer);
// The ids of the files' bos_token and eos_token, or -1.
int32_t winnow_tokenizer_bos(const WinnowTokenizer* tokenizer);
int32_t winnow_tokenizer_eos(const WinnowTokenizer* tokenizer);
// What of the files was left out, a line each; may be empty.
WinnowOwnedText winnow_tokenizer_notes(const WinnowTokenizer* tokenizer);
// The id of a token, or -1.
int32_t winnow_tokenizer_id_of(const WinnowTokenizer* tokenizer,
                               WinnowSlice token);
bool winnow_tokenizer_is_special(const WinnowTokenizer* tokenizer, int32_t id);
// False, and *out untouched, where no token has this id.
bool winnow_tokenizer_token_text(const WinnowTokenizer* tokenizer, int32_t id,
                                 WinnowOwnedText* out);

// Keeps what it needs of `tokenizer`, which may be freed before it.
WinnowDetokenizer* winnow_detokenizer_create(const WinnowTokenizer* tokenizer,
                                             bool skip_special_tokens);
// At the same place.
WinnowDetokenizer* winnow_detokenizer_clone(
    const WinnowDetokenizer* detokenizer);
void winnow_detokenizer_free(WinnowDetokenizer* detokenizer);
// Whether what comes next is spelled otherwise for beginning a text.
bool winnow_detokenizer_begins(const WinnowDetokenizer* detokenizer);
// Whether the decoder puts spaces between tokens, which are no token's own.
bool winnow_detokenizer_puts_spaces(const WinnowDetokenizer* detokenizer);
// Goes on behind `ids`, whose text is not given. Nothing was pushed before.
int32_t winnow_detokenizer_follow(WinnowDetokenizer* detokenizer,
                                  const int32_t* ids, size_t num_ids,
                                  WinnowOwnedText* error);
// Changes nothing. Both texts of *out are given back by winnow_text_free.
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
// A line for each template that cannot be used, and for a default that is not
// there.
WinnowOwnedText winnow_chat_template_complaints(
    const WinnowChatTemplate* chat_template);
// kWinnowTextNotFound: `continue_last`, and the last message has no text, or
// the template does not write it.
int32_t winnow_chat_template_render(const WinnowChatTemplate* chat_template,
                                    WinnowChatInput input, WinnowOwnedText* out,
                                    WinnowOwnedText* error);

// Of the ids below `vocab_size`; `ends`: those that end a text. Keeps nothing
// of `tokenizer`.
int32_t winnow_vocabulary_create(const WinnowTokenizer* tokenizer,
                                 size_t vocab_size, const int32_t* ends,
                                 size_t num_ends, WinnowGrammarLimits limits,
                                 WinnowVocabulary** out,
                                 WinnowOwnedText* error);
void winnow_vocabulary_free(WinnowVocabulary* vocabulary);

// What of a JSON schema is followed: {"schema": without the rest, "unheld":
// [what is not, as "properties.name.keyword"]}. References are within "$defs"
// of its root then; it fails where one leads out of the schema, or nowhere.
// `rest`: a WinnowUnheld. What is no schema at all may come as it is.
int32_t winnow_schema_hold(WinnowSlice schema, int32_t rest,
                           WinnowOwnedText* out, WinnowOwnedText* error);

// A matcher at the beginning of an answer, which `begins` a text or goes on
// behind one. It may outlive `vocabulary`.
// `white_space`: an expression of what may stand between the tokens of a
// schema's value, where it is not the usual; "": nothing.
int32_t winnow_matcher_create(const WinnowVocabulary* vocabulary, int32_t kind,
                              WinnowSlice grammar, WinnowSlice white_space,
                              bool begins, WinnowMatcher** out,
                              WinnowOwnedText* error);
// At the same place. Those that were cloned from one another, and the one that
// they come from, are used by one thread at a time.
WinnowMatcher* winnow_matcher_clone(const WinnowMatcher* matcher);
void winnow_matcher_free(WinnowMatcher* matcher);
// Bit i % 32 of word i / 32: token i may come next. All are 0 where none may,
// and where it fails; it fails from then on.
int32_t winnow_matcher_mask(WinnowMatcher* matcher, uint32_t* words,
                            size_t num_words, WinnowOwnedText* error);
// Goes on behind the token. Fails where it may not come next.
int32_t winnow_matcher_accept(WinnowMatcher* matcher, int32_t id,
                              WinnowOwnedText* error);
// True where nothing may follow, and where it has failed.
bool winnow_matcher_is_complete(const WinnowMatcher* matcher);

}  // extern "C"

#endif  // WINNOW_TEXT_RUST_WINNOW_TEXT_H_
