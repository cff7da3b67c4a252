//! How much of a text one token can stand for: a text of more bytes than so
//! many tokens can have is too long, and need not be encoded to know it.

use serde::Deserialize;
use serde_json::Value;
use tokenizers::tokenizer::Tokenizer as Inner;

use crate::bytes::byte_char;

/// Canonical composition makes seven bytes of a text two at most (U+1FBE U+0308
/// U+0301 is U+0390).
const MOST_COMPOSED: usize = 4;
/// What of tokenizer.json says whether any of a text may vanish.
#[derive(Deserialize)]
struct Pipeline {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    model: Model,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
}

/// The most bytes of a text that a token stands for; None where that may be
/// any number: unknown words, white space that is dropped, other models.
pub fn max_token_bytes(json: &[u8], inner: &Inner) -> Option<usize> {
    let pipeline: Pipeline = serde_json::from_slice(json).ok()?;
    let shrinking = shrinking_of(&pipeline.normalizer)?;
    let bytes = is_byte_level(&pipeline.pre_tokenizer);
    if !keeps_all(&pipeline.pre_tokenizer)
        || !pipeline.model.knows_all(bytes, inner)
    {
        return None;
    }
    let added = inner.get_added_tokens_decoder();
    if added.values().any(|token| token.lstrip || token.rstrip) {
        return None;
    }
    let spelled = |token: &String| {
        // A character of the alphabet stands for one byte.
        if bytes { token.chars().count() } else { token.len() }
    };
    let longest = inner.get_vocab(false).keys().map(spelled).max()?;
    let longest_added = added.values().map(|token| token.content.len()).max();
    longest.max(longest_added.unwrap_or(0)).checked_mul(shrinking)
}

impl Model {
    /// Whether every byte has a token, in the alphabet of byte-level
    /// vocabularies or as byte fallback spells it.
    fn knows_all(&self, is_byte_level: bool, inner: &Inner) -> bool {
        let plain = |affix: &Option<String>| {
            affix.as_ref().is_none_or(String::is_empty)
        };
        let has = |token: String| inner.token_to_id(&token).is_some();
        let fallback = |byte: u8| format!("<0x{byte:02X}>");
        let bytes = u8::MIN..=u8::MAX;
        self.kind.as_deref() == Some("BPE")
            && plain(&self.continuing_subword_prefix)
            && plain(&self.end_of_word_suffix)
            && if is_byte_level {
                bytes.map(byte_char).map(String::from).all(has)
            } else {
                self.byte_fallback && bytes.map(fallback).all(has)
            }
    }
}

/// How much shorter a text may become at most; None: by any amount.
fn shrinking_of(normalizer: &Value) -> Option<usize> {
    let text = |value: &Value| value.as_str().map(str::len);
    match kind_of(normalizer) {
        None => normalizer.is_null().then_some(1),
        Some("Prepend") => Some(1),
        Some("NFC") => Some(MOST_COMPOSED),
        Some("Replace") => {
            let pattern = text(&normalizer["pattern"]["String"])?;
            (text(&normalizer["content"])? >= pattern).then_some(1)
        }
        Some("Sequence") => normalizer["normalizers"]
            .as_array()?
            .iter()
            .map(shrinking_of)
            .try_fold(1, |product: usize, each| product.checked_mul(each?)),
        Some(_) => None,
    }
}

/// Whether what splits a text leaves all of it.
fn keeps_all(pre_tokenizer: &Value) -> bool {
    match kind_of(pre_tokenizer) {
        None => pre_tokenizer.is_null(),
        Some("ByteLevel" | "Digits" | "Metaspace") => true,
        Some("Split") => pre_tokenizer["behavior"] != "Removed",
        Some("Sequence") => pre_tokenizer["pretokenizers"]
            .as_array()
            .is_some_and(|steps| steps.iter().all(keeps_all)),
        Some(_) => false,
    }
}

fn is_byte_level(pre_tokenizer: &Value) -> bool {
    kind_of(pre_tokenizer) == Some("ByteLevel")
        || pre_tokenizer["pretokenizers"]
            .as_array()
            .is_some_and(|steps| steps.iter().any(is_byte_level))
}

fn kind_of(step: &Value) -> Option<&str> {
    step["type"].as_str()
}
