//! The C interface: winnow_text.h says what each function promises.
//!
//! The only unsafe code, beside grammar_calls, detokenizer_calls,
//! template_calls and what asks the C library for times. Callers keep the
//! header's contract: handles are live, slices readable, outputs writable.

mod byte_fallback;
mod bytes;
mod charsmap;
mod complaints;
mod config;
mod contents;
mod coverage;
mod detokenizer;
mod detokenizer_calls;
mod failure;
mod grammar;
mod grammar_calls;
mod growth;
mod held_schema;
mod jinja;
mod memory;
mod messages;
mod schema_fit;
mod schema_limits;
mod schema_places;
mod schema_uri;
mod special_tokens;
mod spelling;
mod stack;
mod stream;
mod template;
mod template_calls;
mod template_tokens;
mod tokenizer;
mod white_space;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use failure::{fenced, utf8, Code, Failure, Outcome};
use special_tokens::Files;
use tokenizer::Tokenizer;

/// A file's content and the name that messages give it.
pub struct NamedText<'a> {
    pub name: String,
    pub text: &'a [u8],
}

#[repr(C)]
pub struct Slice {
    data: *const u8,
    size: usize,
}

impl Slice {
    unsafe fn get<'a>(&self) -> Option<&'a [u8]> {
        (!self.data.is_null()).then(|| unsafe {
            std::slice::from_raw_parts(self.data, self.size)
        })
    }

    unsafe fn bytes<'a>(&self) -> &'a [u8] {
        unsafe { self.get() }.unwrap_or_default()
    }
}

#[repr(C)]
pub struct NamedSlice {
    name: Slice,
    text: Slice,
}

impl NamedSlice {
    unsafe fn get<'a>(&self) -> Option<NamedText<'a>> {
        let text = unsafe { self.text.get() }?;
        let name =
            String::from_utf8_lossy(unsafe { self.name.bytes() }).into_owned();
        Some(NamedText { name, text })
    }
}

/// A boxed slice on its way through C.
#[repr(C)]
pub struct Owned<T> {
    data: *mut T,
    size: usize,
}

impl<T> From<Box<[T]>> for Owned<T> {
    fn from(items: Box<[T]>) -> Self {
        let size = items.len();
        Owned { data: Box::into_raw(items).cast(), size }
    }
}

impl<T> Owned<T> {
    unsafe fn free(self) {
        if !self.data.is_null() {
            let items =
                std::ptr::slice_from_raw_parts_mut(self.data, self.size);
            drop(unsafe { Box::from_raw(items) });
        }
    }
}

type Text = Owned<u8>;
type Ids = Owned<i32>;

fn text(of: String) -> Text {
    of.into_bytes().into_boxed_slice().into()
}

/// Runs `body` behind the fence and hands on its value or its failure.
unsafe fn answer<T>(
    error: *mut Text,
    hand_on: impl FnOnce(T),
    body: impl FnOnce() -> Outcome<T>,
) -> i32 {
    match fenced(body) {
        Ok(value) => {
            hand_on(value);
            0
        }
        Err(failure) => {
            unsafe { error.write(text(failure.message)) };
            failure.code as i32
        }
    }
}

/// Runs what has no way to fail; a panic in it yields `otherwise`.
fn sure<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    fenced(|| Ok(body())).unwrap_or(otherwise)
}

fn id_or_none(id: Option<u32>) -> i32 {
    id.and_then(|id| i32::try_from(id).ok()).unwrap_or(-1)
}

#[no_mangle]
pub extern "C" fn winnow_text_ask_where_memory_ends(give: memory::Give) {
    memory::ask_where_memory_ends(give);
}

#[no_mangle]
pub unsafe extern "C" fn winnow_text_free(text: Text) {
    unsafe { text.free() }
}

#[no_mangle]
pub unsafe extern "C" fn winnow_ids_free(ids: Ids) {
    unsafe { ids.free() }
}

#[no_mangle]
pub unsafe extern "C" fn winnow_text_check_utf8(
    text: Slice,
    error: *mut Text,
) -> i32 {
    unsafe { answer(error, |_| (), || utf8(text.bytes())) }
}

#[repr(C)]
pub struct TokenFiles {
    config: NamedSlice,
    special_map: NamedSlice,
    added: NamedSlice,
}

#[no_mangle]
pub unsafe extern "C" fn winnow_tokenizer_load(
    json: NamedSlice,
    files: TokenFiles,
    out: *mut *mut Arc<Tokenizer>,
    error: *mut Text,
) -> i32 {
    unsafe {
        let json = json.get();
        let config = files.config.get();
        let special_map = files.special_map.get();
        let added = files.added.get();
        answer(
            error,
            |tokenizer| out.write(Box::into_raw(Box::new(Arc::new(tokenizer)))),
            || {
                let missing =
                    || Failure::new(Code::NotFound, "no tokenizer.json");
                let files = Files {
                    config: config.as_ref(),
                    special_map: special_map.as_ref(),
                    added: added.as_ref(),
                };
                Tokenizer::load(&json.ok_or_else(missing)?, &files)
            },
        )
    }
}

#[no_mangle]
pub unsafe extern "C" fn winnow_tokenizer_free(tokenizer: *mut Arc<Tokenizer>) {
    sure((), || drop(unsafe { Box::from_raw(tokenizer) }));
}

#[no_mangle]
pub unsafe extern "C" fn winnow_tokenizer_encode(
    tokenizer: &Arc<Tokenizer>,
    text: Slice,
    add_special_tokens: bool,
    is_left: Option<&AtomicBool>,
    out: *mut Ids,
    error: *mut Text,
) -> i32 {
    let is_left = || is_left.is_some_and(|flag| flag.load(Ordering::Relaxed));
    unsafe {
        answer(
            error,
            |ids: Vec<i32>| out.write(ids.into_boxed_slice().into()),
            || {
                let text = utf8(text.bytes())?;
                tokenizer.encode(text, add_special_tokens, is_left)
            },
        )
    }
}

#[no_mangle]
pub unsafe extern "C" fn winnow_tokenizer_decode(
    tokenizer: &Arc<Tokenizer>,
    ids: *const u32,
    num_ids: usize,
    skip_special_tokens: bool,
    out: *mut Text,
    error: *mut Text,
) -> i32 {
    unsafe {
        let ids = if num_ids == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(ids, num_ids)
        };
        answer(
            error,
            |decoded| out.write(text(decoded)),
            || tokenizer.decode(ids, skip_special_tokens),
        )
    }
}

#[no_mangle]
pub extern "C" fn winnow_tokenizer_max_token_bytes(
    tokenizer: &Arc<Tokenizer>,
) -> usize {
    tokenizer.max_token_bytes().unwrap_or(0)
}

#[no_mangle]
pub extern "C" fn winnow_tokenizer_id_limit(tokenizer: &Arc<Tokenizer>) -> i32 {
    tokenizer.id_limit() as i32
}

#[no_mangle]
pub extern "C" fn winnow_tokenizer_bos(tokenizer: &Arc<Tokenizer>) -> i32 {
    id_or_none(tokenizer.named().bos)
}

#[no_mangle]
pub extern "C" fn winnow_tokenizer_eos(tokenizer: &Arc<Tokenizer>) -> i32 {
    id_or_none(tokenizer.named().eos)
}

#[no_mangle]
pub extern "C" fn winnow_tokenizer_notes(tokenizer: &Arc<Tokenizer>) -> Text {
    sure(text(String::new()), || text(tokenizer.named().notes.join("\n")))
}

#[no_mangle]
pub unsafe extern "C" fn winnow_tokenizer_id_of(
    tokenizer: &Arc<Tokenizer>,
    token: Slice,
) -> i32 {
    let token = std::str::from_utf8(unsafe { token.bytes() });
    sure(-1, || id_or_none(token.ok().and_then(|token| tokenizer.id_of(token))))
}

#[no_mangle]
pub extern "C" fn winnow_tokenizer_is_special(
    tokenizer: &Arc<Tokenizer>,
    id: i32,
) -> bool {
    sure(false, || u32::try_from(id).is_ok_and(|id| tokenizer.is_special(id)))
}

#[no_mangle]
pub unsafe extern "C" fn winnow_tokenizer_token_text(
    tokenizer: &Arc<Tokenizer>,
    id: i32,
    out: *mut Text,
) -> bool {
    let token = sure(None, || {
        u32::try_from(id).ok().and_then(|id| tokenizer.token_text(id))
    });
    let Some(token) = token else { return false };
    unsafe { out.write(text(token)) };
    true
}
