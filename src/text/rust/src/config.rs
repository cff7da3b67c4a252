//! tokenizer_config.json: what both the tokenizer and the chat template read.

use serde_json::Value;

use crate::failure::{Code, Failure, Outcome};
use crate::NamedText;

pub fn parse_config(config: &NamedText) -> Outcome<Value> {
    let value: Value = serde_json::from_slice(config.text)
        .map_err(|error| Failure::new(Code::Corrupt, error).of(&config.name))?;
    if !value.is_object() {
        return Err(Failure::new(Code::Corrupt, "must be a JSON object")
            .of(&config.name));
    }
    Ok(value)
}

/// The token under `key`: a string, or an object with "content".
pub fn token_content(config: &Value, key: &str) -> Option<String> {
    let token = config.get(key)?;
    let content = token.get("content").unwrap_or(token);
    content.as_str().map(str::to_owned)
}
