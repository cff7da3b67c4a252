//! SentencePiece's "precompiled_charsmap": base64 of a table's size in bytes
//! (little-endian u32), the table, and text. The crate that reads it allocates
//! what the size claims, before it looks.

use serde_json::Value;

use crate::failure::{Code, Failure, Outcome};

/// Fails where a charsmap anywhere in `normalizer` claims more than it holds.
pub fn check_charsmaps(normalizer: &Value) -> Outcome<()> {
    match normalizer {
        Value::Array(items) => items.iter().try_for_each(check_charsmaps),
        Value::Object(members) => {
            members.iter().try_for_each(|(key, value)| match value.as_str() {
                Some(base64) if key == "precompiled_charsmap" => check(base64),
                _ => check_charsmaps(value),
            })
        }
        _ => Ok(()),
    }
}

fn check(base64: &str) -> Outcome<()> {
    let Some(claimed_bytes) = leading_u32(base64) else {
        return Ok(()); // No base64: the crate says so.
    };
    let held_bytes = base64.len() / 4 * 3;
    if claimed_bytes as usize <= held_bytes {
        return Ok(());
    }
    let what = format!(
        "precompiled_charsmap: table must be at most {held_bytes} bytes, \
         claims {claimed_bytes}"
    );
    Err(Failure::new(Code::Corrupt, what))
}

/// The first four of the bytes that `base64` spells.
fn leading_u32(base64: &str) -> Option<u32> {
    let mut bits: u64 = 0;
    for byte in base64.as_bytes().get(..6)? {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u64::from(digit);
    }
    // 36 bits: four bytes and half of the fifth.
    Some(((bits >> 4) as u32).swap_bytes())
}
