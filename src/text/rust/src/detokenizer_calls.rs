//! The C interface of detokenizers: winnow_text.h says what each function
//! promises.

use std::sync::Arc;

use crate::detokenizer::{Addition, Detokenizer};
use crate::tokenizer::Tokenizer;
use crate::{answer, sure, text, Owned, Text};

#[no_mangle]
pub extern "C" fn winnow_detokenizer_create(
    tokenizer: &Arc<Tokenizer>,
    skip_special_tokens: bool,
) -> *mut Detokenizer {
    sure(std::ptr::null_mut(), || {
        let tokenizer = Arc::clone(tokenizer);
        Box::into_raw(Box::new(Detokenizer::new(
            tokenizer,
            skip_special_tokens,
        )))
    })
}

#[no_mangle]
pub extern "C" fn winnow_detokenizer_clone(
    detokenizer: &Detokenizer,
) -> *mut Detokenizer {
    sure(std::ptr::null_mut(), || Box::into_raw(Box::new(detokenizer.clone())))
}

#[no_mangle]
pub unsafe extern "C" fn winnow_detokenizer_free(
    detokenizer: *mut Detokenizer,
) {
    sure((), || drop(unsafe { Box::from_raw(detokenizer) }));
}

#[no_mangle]
pub extern "C" fn winnow_detokenizer_begins(detokenizer: &Detokenizer) -> bool {
    sure(true, || detokenizer.begins())
}

#[no_mangle]
pub extern "C" fn winnow_detokenizer_puts_spaces(
    detokenizer: &Detokenizer,
) -> bool {
    sure(false, || detokenizer.puts_spaces())
}

#[no_mangle]
pub unsafe extern "C" fn winnow_detokenizer_follow(
    detokenizer: &mut Detokenizer,
    ids: *const u32,
    num_ids: usize,
    error: *mut Text,
) -> i32 {
    unsafe {
        let ids = if num_ids == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(ids, num_ids)
        };
        answer(error, |()| (), || detokenizer.follow(ids))
    }
}

#[no_mangle]
pub unsafe extern "C" fn winnow_detokenizer_push(
    detokenizer: &mut Detokenizer,
    id: i32,
    out: *mut Text,
    error: *mut Text,
) -> i32 {
    let push = || match u32::try_from(id) {
        Ok(id) => detokenizer.push(id),
        Err(_) => Ok(String::new()),
    };
    unsafe { answer(error, |piece| out.write(text(piece)), push) }
}

#[repr(C)]
pub struct TokenAddition {
    text: Text,
    bytes: Owned<u8>,
    is_skipped: bool,
    is_open: bool,
}

#[no_mangle]
pub unsafe extern "C" fn winnow_detokenizer_peek(
    detokenizer: &Detokenizer,
    id: i32,
    out: *mut TokenAddition,
    error: *mut Text,
) -> i32 {
    // No token has the highest.
    let id = u32::try_from(id).unwrap_or(u32::MAX);
    unsafe {
        answer(
            error,
            |addition: Addition| {
                out.write(TokenAddition {
                    text: text(addition.text),
                    bytes: addition.bytes.into_boxed_slice().into(),
                    is_skipped: addition.is_skipped,
                    is_open: addition.is_open,
                });
            },
            || detokenizer.peek(id),
        )
    }
}

#[no_mangle]
pub unsafe extern "C" fn winnow_detokenizer_finish(
    detokenizer: &mut Detokenizer,
    out: *mut Text,
    error: *mut Text,
) -> i32 {
    unsafe {
        answer(error, |rest| out.write(text(rest)), || detokenizer.finish())
    }
}
