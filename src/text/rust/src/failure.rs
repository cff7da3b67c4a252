//! Failures as values, and the fence that turns a panic into one.

use std::any::Any;
use std::fmt::Display;
use std::panic::{catch_unwind, set_hook, AssertUnwindSafe};
use std::sync::Once;

/// The numbers are those of WinnowTextCode in winnow_text.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    InvalidArgument = 1,
    NotFound = 2,
    Corrupt = 3,
    ResourceExhausted = 4,
    Cancelled = 5,
    Io = 6,
}

#[derive(Clone, Debug)]
pub struct Failure {
    pub code: Code,
    pub message: String,
}

impl Failure {
    pub fn new(code: Code, message: impl Display) -> Self {
        let message = one_line(&message.to_string());
        Failure { code, message }
    }

    /// The same failure, told of the file or field `name`.
    pub fn of(self, name: &str) -> Self {
        Failure::new(self.code, format!("{name}: {}", self.message))
    }
}

pub type Outcome<T> = Result<T, Failure>;

/// No message is longer than this many characters: what broke may quote a
/// whole file.
const MAX_MESSAGE_CHARS: usize = 600;

fn one_line(text: &str) -> String {
    let mut line = String::new();
    for (i, word) in
        text.split(char::is_control).filter(|w| !w.is_empty()).enumerate()
    {
        if i > 0 {
            line.push(' ');
        }
        line.push_str(word);
    }
    if let Some((cut, _)) = line.char_indices().nth(MAX_MESSAGE_CHARS) {
        line.truncate(cut);
        line.push_str("...");
    }
    line
}

/// Runs `body`; a panic in it (the crates below assert what hostile files
/// break) becomes a failure, and prints nothing.
pub fn fenced<T>(body: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| set_hook(Box::new(|_| {})));
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let told = panic_text(payload.as_ref());
        Err(Failure::new(Code::Corrupt, format!("cannot be used: {told}")))
    })
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else {
        "an assertion failed"
    }
}

/// `bytes` as text; the failure names the offset of the first bad byte.
pub fn utf8(bytes: &[u8]) -> Outcome<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        Failure::new(
            Code::InvalidArgument,
            format!("invalid UTF-8 at byte {at} (0x{:02x})", bytes[at]),
        )
    })
}
