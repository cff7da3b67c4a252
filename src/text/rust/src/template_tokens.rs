//! The special tokens that a chat template sees as variables, as transformers
//! 5 names them.

use serde_json::{Map, Value as Json};

use crate::config::token_content;

/// Each name once, with the token's text.
pub type SpecialTokens = Vec<(String, String)>;

const STANDARD: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];
/// Where tokens of a model's own have names: an object of them.
const NAMED: [&str; 3] = [
    "extra_special_tokens",
    "additional_special_tokens",
    "model_specific_special_tokens",
];

/// Of tokenizer_config.json and of special_tokens_map.json, which goes first
/// where the config does not list its added tokens.
pub fn special_tokens(
    config: &Json,
    special_map: Option<&Json>,
) -> SpecialTokens {
    let mut tokens = SpecialTokens::new();
    add(config, &mut tokens);
    let lists_its_tokens = config
        .get("added_tokens_decoder")
        .is_some_and(|tokens| !tokens.is_null());
    if let (Some(special_map), false) = (special_map, lists_its_tokens) {
        add(special_map, &mut tokens);
    }
    tokens
}

fn add(file: &Json, tokens: &mut SpecialTokens) {
    let no_names = Map::new();
    let num_before = tokens.len();
    let mut has_own = false;
    for (name, value) in file.as_object().unwrap_or(&no_names) {
        let is_standard = STANDARD.contains(&name.as_str());
        let is_own = !is_standard
            && name.ends_with("_token")
            && (value.is_string() || value.get("content").is_some());
        has_own |= is_own;
        // A map does not change a name of the config's own.
        let is_known =
            tokens[..num_before].iter().any(|(known, _)| known == name);
        if is_standard || (is_own && !is_known) {
            set(file, name, tokens);
        }
    }
    for list in NAMED {
        // The last one counts where there are no others.
        if has_own && list == NAMED[NAMED.len() - 1] {
            continue;
        }
        let Some(named) = file.get(list).and_then(Json::as_object) else {
            continue;
        };
        has_own |= !named.is_empty();
        for name in named.keys() {
            set(&file[list], name, tokens);
        }
    }
}

fn set(object: &Json, name: &str, tokens: &mut SpecialTokens) {
    let Some(content) = token_content(object, name) else { return };
    match tokens.iter_mut().find(|(known, _)| known == name) {
        Some(known) => known.1 = content,
        None => tokens.push((name.to_owned(), content)),
    }
}
