//! The C interface of grammars: winnow_text.h says what each function promises.

use std::sync::Arc;

use serde_json::{json, Value};

use crate::failure::{utf8, Code, Failure, Outcome};
use crate::grammar::{check_nesting, Kind, Limits, Matcher, Vocabulary};
use crate::held_schema::{held, Held, Unheld};
use crate::schema_fit::fitting;
use crate::stack::on_large_stack;
use crate::tokenizer::Tokenizer;
use crate::{answer, sure, text, Slice, Text};

#[no_mangle]
pub unsafe extern "C" fn winnow_schema_hold(
    schema: Slice,
    rest: i32,
    out: *mut Text,
    error: *mut Text,
) -> i32 {
    unsafe {
        answer(
            error,
            |told: String| out.write(text(told)),
            || {
                let schema = utf8(schema.bytes())?;
                check_nesting(schema)?;
                on_large_stack(|| {
                    let Held { schema, unheld } = hold(schema, rest)?;
                    let told = json!({ "schema": schema, "unheld": unheld });
                    Ok(told.to_string())
                })
            },
        )
    }
}

/// `rest`: a number of WinnowUnheld in winnow_text.h.
fn hold(schema: &str, rest: i32) -> Outcome<Held> {
    let schema: Value = serde_json::from_str(schema)
        .map_err(|e| Failure::new(Code::InvalidArgument, e))?;
    match rest {
        0 => held(&schema, Unheld::Refused),
        1 => held(&schema, Unheld::LeftOut(&[])),
        2 => fitting(&schema),
        _ => Err(Failure::new(Code::InvalidArgument, "no such rest")),
    }
}

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
    white_space: Slice,
    begins: bool,
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
                let white_space = white_space.get().map(utf8).transpose()?;
                let text = utf8(grammar.bytes())?;
                vocabulary.compile(kind, text, white_space, begins)
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
