//! How much longer a normalizer may make a text: "Replace" puts any content in
//! the place of a match, and a sequence of them multiplies. Forty of two
//! characters for one ask for a terabyte to encode a letter.

use serde_json::Value;

use crate::failure::{Code, Failure, Outcome};

/// Far above any in use: SentencePiece's space is three bytes for one.
const MAX_GROWTH: f64 = 4096.0;

/// Fails where the normalizer may make a text longer by more than MAX_GROWTH.
pub fn check_growth(normalizer: &Value) -> Outcome<()> {
    let growth = growth_of(normalizer);
    if growth <= MAX_GROWTH {
        return Ok(());
    }
    let what = format!(
        "normalizer: may make a text at most {MAX_GROWTH} times as long, \
         makes it {growth:.0} times"
    );
    Err(Failure::new(Code::Corrupt, what))
}

fn growth_of(normalizer: &Value) -> f64 {
    if let Some(steps) = normalizer.get("normalizers") {
        return steps.as_array().into_iter().flatten().map(growth_of).product();
    }
    let length = |key| {
        normalizer.get(key).and_then(Value::as_str).map_or(0, str::len) as f64
    };
    match normalizer.get("type").and_then(Value::as_str) {
        Some("Replace") => {
            let pattern = normalizer
                .get("pattern")
                .and_then(|pattern| pattern.get("String"))
                .and_then(Value::as_str)
                .map_or(0, str::len) as f64;
            if pattern > 0.0 {
                (length("content") / pattern).max(1.0)
            } else {
                // An expression may match between any two bytes.
                length("content") + 1.0
            }
        }
        // Of the shortest text, which is one byte.
        Some("Prepend") => 1.0 + length("prepend"),
        _ => 1.0,
    }
}
