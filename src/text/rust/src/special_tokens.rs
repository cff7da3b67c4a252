//! The tokens that the files beside tokenizer.json name: added, and marked as
//! special, as Hugging Face transformers does where it loads a folder.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokenizers::tokenizer::{AddedToken, Tokenizer as Inner};

use crate::config::parse_config;
use crate::failure::{fenced, Code, Failure, Outcome};
use crate::NamedText;

const NAMES: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];
const EXTRA: &str = "extra_special_tokens";
/// What that was called before.
const ADDITIONAL: &str = "additional_special_tokens";
/// An object of tokens with names.
const MODEL_SPECIFIC: &str = "model_specific_special_tokens";
const DECODER: &str = "added_tokens_decoder";

/// What a folder may have beside tokenizer.json.
pub struct Files<'a> {
    /// tokenizer_config.json.
    pub config: Option<&'a NamedText<'a>>,
    /// special_tokens_map.json, read where `config` lists no added tokens.
    pub special_map: Option<&'a NamedText<'a>>,
    /// added_tokens.json, likewise.
    pub added: Option<&'a NamedText<'a>>,
}

/// Which tokens begin and end a text, and what was left out.
#[derive(Default)]
pub struct Named {
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub notes: Vec<String>,
}

/// A token as the files write it: a text, or an object.
#[derive(Clone, Deserialize)]
struct Token {
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    normalized: Option<bool>,
    special: Option<bool>,
}

impl Token {
    fn special(content: &str) -> Self {
        Token {
            content: content.to_owned(),
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: None,
            special: Some(true),
        }
    }

    fn added(&self) -> AddedToken {
        let special = self.special.unwrap_or(false);
        AddedToken::from(self.content.clone(), special)
            .single_word(self.single_word)
            .lstrip(self.lstrip)
            .rstrip(self.rstrip)
            .normalized(self.normalized.unwrap_or(!special))
    }
}

impl From<&AddedToken> for Token {
    fn from(token: &AddedToken) -> Self {
        Token {
            content: token.content.clone(),
            single_word: token.single_word,
            lstrip: token.lstrip,
            rstrip: token.rstrip,
            normalized: Some(token.normalized),
            special: Some(token.special),
        }
    }
}

/// A token with a name, and the file that names it.
struct Role {
    name: String,
    file: String,
    token: Token,
}

/// A value that waits until all files are read.
struct Field {
    value: Value,
    file: String,
}

#[derive(Default)]
struct Special {
    roles: Vec<Role>,
    /// Without a name.
    extra: Vec<Token>,
    /// Whether a file lists those, be it none.
    has_extra: bool,
    /// The older field, which counts where the newer one is no list.
    additional: Option<Field>,
    /// By id: what is listed as added.
    listed: BTreeMap<u32, Token>,
    notes: Vec<String>,
}

/// Adds them to `inner`.
pub fn add_special_tokens(inner: &mut Inner, files: &Files) -> Outcome<Named> {
    let mut special = Special::default();
    let config = match files.config {
        Some(config) => object(config)?,
        None => Map::new(),
    };
    let name = files.config.map_or("", |config| config.name.as_str());
    special.read(&config, name);
    if let Some(entries) = config.get(DECODER) {
        special.listed = decoder(entries).map_err(|f| f.of(name))?;
    } else {
        if let Some(map) = files.special_map {
            special.read_map(&object(map)?, &map.name);
        }
        if let Some(added) = files.added {
            special.read_added(inner, &object(added)?, &added.name);
        }
        for (id, token) in inner.get_added_tokens_decoder() {
            special.listed.insert(id, Token::from(&token));
        }
    }
    special.end_additional();
    let known = |name| special.known(inner, name);
    let (bos, eos) = (known("bos_token"), known("eos_token"));
    fenced(|| special.add_to(inner)).map_err(|f| f.of(name))?;
    if config.contains_key(DECODER) {
        for (id, token) in &special.listed {
            check_id(inner, &token.content, *id).map_err(|f| f.of(name))?;
        }
    }
    let id_of = |token: Option<String>| inner.token_to_id(&token?);
    Ok(Named { bos: id_of(bos), eos: id_of(eos), notes: special.notes })
}

/// That an added token has the id which its file declares.
pub fn check_id(inner: &Inner, content: &str, declared: u32) -> Outcome<()> {
    match inner.token_to_id(content) {
        Some(id) if id == declared => Ok(()),
        None if content.is_empty() => Ok(()), // The crate ignores it.
        id => {
            let id = id.map_or("none".to_owned(), |id| id.to_string());
            let what = format!(
                "added token {content:?} must have the id {declared}, has {id}"
            );
            Err(Failure::new(Code::Corrupt, what))
        }
    }
}

impl Special {
    /// tokenizer_config.json.
    fn read(&mut self, config: &Map<String, Value>, file: &str) {
        for name in NAMES {
            self.read_role(name, config.get(name), file);
        }
        let num_common = self.roles.len();
        for (name, value) in config {
            self.read_custom(name, value, file);
        }
        let has_own = self.roles.len() > num_common;
        let extra = config.get(EXTRA);
        let additional = config.get(ADDITIONAL);
        let is_listed = extra.is_some_and(|extra| !is_empty(extra));
        let has_named = is_listed && extra.is_some_and(Value::is_object);
        if !has_own && !has_named {
            self.read_named(MODEL_SPECIFIC, config.get(MODEL_SPECIFIC), file);
        }
        match additional {
            Some(additional) if !is_listed => {
                self.read_extra(ADDITIONAL, additional, file);
            }
            _ => {
                if let Some(extra) = extra {
                    self.read_extra(EXTRA, extra, file);
                }
                self.keep_additional(additional, file);
            }
        }
    }

    /// special_tokens_map.json, which goes before the other file, but for
    /// names of the checkpoint's own.
    fn read_map(&mut self, map: &Map<String, Value>, file: &str) {
        if let Some(extra) = map.get(EXTRA) {
            if !extra.is_array() {
                self.extra.clear();
                self.has_extra = false;
            }
            self.read_extra(EXTRA, extra, file);
        }
        self.keep_additional(map.get(ADDITIONAL), file);
        for (name, value) in map {
            if NAMES.contains(&name.as_str()) {
                self.roles.retain(|role| role.name != *name);
                self.read_role(name, Some(value), file);
            } else if self.roles.iter().all(|role| role.name != *name) {
                self.read_custom(name, value, file);
            }
        }
    }

    fn keep_additional(&mut self, value: Option<&Value>, file: &str) {
        if let Some(value) = value {
            self.additional =
                Some(Field { value: value.clone(), file: file.to_owned() });
        }
    }

    fn end_additional(&mut self) {
        if self.has_extra {
            return;
        }
        if let Some(Field { value, file }) = self.additional.take() {
            self.read_extra(ADDITIONAL, &value, &file);
        }
    }

    /// added_tokens.json: {text: id}. An id that is another's is left out.
    fn read_added(
        &mut self,
        inner: &Inner,
        added: &Map<String, Value>,
        file: &str,
    ) {
        let special: HashSet<&str> = self
            .roles
            .iter()
            .filter(|role| NAMES.contains(&role.name.as_str()))
            .map(|role| role.token.content.as_str())
            .chain(self.extra.iter().map(|token| token.content.as_str()))
            .collect();
        for (content, value) in added {
            let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
            let is_at = |id: u32| {
                inner.token_to_id(content).map_or_else(
                    || inner.id_to_token(id).is_none(),
                    |known| known == id,
                )
            };
            let Some(id) = id.filter(|id| is_at(*id)) else {
                self.notes.push(format!(
                    "{file}: token {content:?} must have an id of its own, \
                     has {value}: it is left out"
                ));
                continue;
            };
            let is_special = special.contains(content.as_str());
            let token =
                Token { special: Some(is_special), ..Token::special(content) };
            self.listed.insert(id, token);
        }
    }

    fn read_role(&mut self, name: &str, value: Option<&Value>, file: &str) {
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return;
        };
        match token_of(value) {
            Some(token) => self.roles.push(Role {
                name: name.to_owned(),
                file: file.to_owned(),
                token: Token { special: Some(true), ..token },
            }),
            None => self.note_wrong(name, value, file),
        }
    }

    /// A name of the checkpoint's own: "image_token".
    fn read_custom(&mut self, name: &str, value: &Value, file: &str) {
        let is_custom = name.ends_with("_token") && !NAMES.contains(&name);
        if is_custom && token_of(value).is_some() {
            self.roles.retain(|role| role.name != name);
            self.read_role(name, Some(value), file);
        }
    }

    /// A list of tokens, or an object of tokens with names.
    fn read_extra(&mut self, name: &str, value: &Value, file: &str) {
        self.has_extra |= !value.is_object();
        match value {
            Value::Array(items) => {
                for item in items {
                    match token_of(item) {
                        Some(token) => self.extra.push(token),
                        None => self.note_wrong(name, item, file),
                    }
                }
            }
            _ => self.read_named(name, Some(value), file),
        }
    }

    fn read_named(&mut self, name: &str, value: Option<&Value>, file: &str) {
        match value {
            None | Some(Value::Null) => {}
            Some(Value::Object(named)) => {
                for (role, value) in named {
                    self.roles.retain(|known| known.name != *role);
                    self.read_role(role, Some(value), file);
                }
            }
            Some(value) => self.note_wrong(name, value, file),
        }
    }

    fn note_wrong(&mut self, name: &str, value: &Value, file: &str) {
        self.notes.push(format!(
            "{file}: field {name}: must be the text of a token or an object \
             with its \"content\", is {value}: it is left out"
        ));
    }

    /// The text of the token with this name, where there is such a token.
    fn known(&self, inner: &Inner, name: &str) -> Option<String> {
        let role = self.roles.iter().find(|role| role.name == name)?;
        let content = &role.token.content;
        let is_listed =
            self.listed.values().any(|token| token.content == *content);
        (is_listed || inner.token_to_id(content).is_some())
            .then(|| content.clone())
    }

    fn note_unknown_end(&mut self, inner: &Inner) {
        let name = "eos_token";
        if self.known(inner, name).is_some() {
            return;
        }
        let Some(role) = self.roles.iter().find(|role| role.name == name)
        else {
            return;
        };
        let note = format!(
            "{}: field {name}: must be a token of the vocabulary, is {:?}: no \
             answer ends with it",
            role.file, role.token.content
        );
        self.notes.push(note);
    }

    /// In transformers' order, which gives new ones their ids.
    fn add_to(&mut self, inner: &mut Inner) -> Outcome<()> {
        self.note_unknown_end(inner);
        self.roles.sort_by_key(|role| {
            NAMES.iter().position(|n| *n == role.name).unwrap_or(NAMES.len())
        });
        let names: HashSet<&str> =
            self.roles.iter().map(|r| r.token.content.as_str()).collect();
        let known = inner.get_added_tokens_decoder();
        let mut there: HashSet<String> =
            known.values().map(|token| token.content.clone()).collect();
        let mut tokens: Vec<AddedToken> = Vec::new();
        for token in self.listed.values() {
            let is_named = names.contains(token.content.as_str());
            let special = token.special.unwrap_or(false) || is_named;
            there.insert(token.content.clone());
            tokens.push(
                Token { special: Some(special), ..token.clone() }.added(),
            );
        }
        let others = self.roles.iter().map(|role| &role.token);
        for token in others.chain(&self.extra) {
            if there.insert(token.content.clone()) {
                tokens.push(token.added());
            }
        }
        tokens.retain(|token| !known.values().any(|other| other == token));
        if !tokens.is_empty() {
            inner.add_tokens(&tokens);
        }
        Ok(())
    }
}

fn object(file: &NamedText) -> Outcome<Map<String, Value>> {
    match parse_config(file)? {
        Value::Object(object) => Ok(object),
        _ => unreachable!("parse_config takes nothing else"),
    }
}

fn decoder(entries: &Value) -> Outcome<BTreeMap<u32, Token>> {
    BTreeMap::deserialize(entries).map_err(|error| {
        Failure::new(Code::Corrupt, format!("{DECODER}: {error}"))
    })
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Where a list or a name has an object, its token is special unless the object
/// was saved with its type and says otherwise.
fn token_of(value: &Value) -> Option<Token> {
    if let Some(content) = value.as_str() {
        return (!content.is_empty()).then(|| Token::special(content));
    }
    let mut token = Token::deserialize(value).ok()?;
    if value.get("__type").is_none() {
        token.special = Some(true);
    }
    (!token.content.is_empty()).then_some(token)
}
