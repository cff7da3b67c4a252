//! The C interface of grammars: winnow_text.h says what each function promises.

use std::sync::Arc;

use crate::failure::{utf8, Code, Failure};
use crate::grammar::{Kind, Limits, Matcher, Vocabulary};
use crate::tokenizer::Tokenizer;
use crate::{answer, sure, Slice, Text};

#[no_mangle]
pub unsafe extern "C" fn winnow_vocabulary_create(
    tokenizer: &Arc<Tokenizer>,
    vocab_size: usize,
    ends: *const i32,
    num_ends: usize,
    limits: Limits,
    out: *mut *mut Vocabulary,
    error: *mut Text,
) -> i32 {
    unsafe {
        let ends: &[i32] = if num_ends == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(ends, num_ends)
        };
        let ends: Vec<u32> =
            ends.iter().filter_map(|id| u32::try_from(*id).ok()).collect();
        answer(
            error,
            |vocabulary| out.write(Box::into_raw(Box::new(vocabulary))),
            || Vocabulary::new(tokenizer, vocab_size, &ends, limits),
        )
    }
}

#[no_mangle]
pub unsafe extern "C" fn winnow_vocabulary_free(vocabulary: *mut Vocabulary) {
    sure((), || drop(unsafe { Box::from_raw(vocabulary) }));
}

#[no_mangle]
pub unsafe extern "C" fn winnow_matcher_create(
    vocabulary: &Vocabulary,
    kind: i32,
    grammar: Slice,
    out: *mut *mut Matcher,
    error: *mut Text,
) -> i32 {
    unsafe {
        answer(
            error,
            |matcher| out.write(Box::into_raw(Box::new(matcher))),
            || {
                let kind = Kind::of(kind).ok_or_else(|| {
                    Failure::new(Code::InvalidArgument, "no such kind")
                })?;
                vocabulary.compile(kind, utf8(grammar.bytes())?)
            },
        )
    }
}

#[no_mangle]
pub extern "C" fn winnow_matcher_clone(matcher: &Matcher) -> *mut Matcher {
    sure(std::ptr::null_mut(), || Box::into_raw(Box::new(matcher.clone())))
}

#[no_mangle]
pub unsafe extern "C" fn winnow_matcher_free(matcher: *mut Matcher) {
    sure((), || drop(unsafe { Box::from_raw(matcher) }));
}

#[no_mangle]
pub unsafe extern "C" fn winnow_matcher_mask(
    matcher: &mut Matcher,
    words: *mut u32,
    num_words: usize,
    error: *mut Text,
) -> i32 {
    unsafe {
        let words = std::slice::from_raw_parts_mut(words, num_words);
        answer(error, |()| (), || matcher.mask(words))
    }
}

#[no_mangle]
pub unsafe extern "C" fn winnow_matcher_accept(
    matcher: &mut Matcher,
    id: i32,
    error: *mut Text,
) -> i32 {
    let accept = || match u32::try_from(id) {
        Ok(id) => matcher.accept(id),
        Err(_) => Err(Failure::new(Code::InvalidArgument, "no token")),
    };
    unsafe { answer(error, |()| (), accept) }
}

#[no_mangle]
pub extern "C" fn winnow_matcher_is_complete(matcher: &Matcher) -> bool {
    sure(true, || matcher.is_complete())
}
