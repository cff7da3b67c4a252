//! A tokenizer of the `tokenizers` crate, loaded with the checks that the
//! crate leaves to its callers.

use serde::Deserialize;
use tokenizers::tokenizer::{
    Encoding, Model, OffsetType, PreTokenizer, Tokenizer as Inner,
};

use crate::charsmap::check_charsmaps;
use crate::coverage::max_token_bytes;
use crate::failure::{fenced, Code, Failure, Outcome};
use crate::growth::check_growth;
use crate::special_tokens::{add_special_tokens, check_id, Files, Named};
use crate::stream::{chain, Link};
use crate::NamedText;

/// Ids cross the interface as int32.
const MAX_ID: u32 = i32::MAX as u32 - 1;

/// One loaded tokenizer. Every method takes &self; threads may share it.
pub struct Tokenizer {
    inner: Inner,
    links: Option<Vec<Link>>,
    id_limit: u32,
    max_token_bytes: Option<usize>,
    named: Named,
}

/// What of tokenizer.json is checked beside the crate. It reads the added
/// tokens, but gives those outside the model's vocabulary new ids.
#[derive(Deserialize)]
struct Declared {
    #[serde(default)]
    added_tokens: Vec<DeclaredId>,
    #[serde(default)]
    normalizer: serde_json::Value,
}

#[derive(Deserialize)]
struct DeclaredId {
    id: u32,
    content: String,
}

impl Tokenizer {
    pub fn load(json: &NamedText, files: &Files) -> Outcome<Tokenizer> {
        // The crate panics at some broken files: a fence for each file, so
        // that the failure names the right one.
        let mut inner =
            fenced(|| parse(json)).map_err(|failure| failure.of(&json.name))?;
        let named = add_special_tokens(&mut inner, files)?;
        let (id_limit, links, max_token_bytes) = fenced(|| {
            let links = inner.get_decoder().map(chain);
            let most = max_token_bytes(json.text, &inner);
            Ok((id_limit(&inner)?, links, most))
        })
        .map_err(|failure| failure.of(&json.name))?;
        Ok(Tokenizer { inner, links, id_limit, max_token_bytes, named })
    }

    /// `is_left`: whether nobody waits for it any more; asked between the
    /// crate's stages, and before each word.
    pub fn encode(
        &self,
        text: &str,
        add_special_tokens: bool,
        is_left: impl Fn() -> bool,
    ) -> Outcome<Vec<i32>> {
        let encoding = self
            .encoding(text, add_special_tokens, &is_left)
            .map_err(|error| match error.downcast_ref::<Left>() {
                Some(left) => Failure::new(Code::Cancelled, left),
                None => Failure::new(
                    Code::Corrupt,
                    format!("cannot encode: {error}"),
                ),
            })?;
        let known = |id: &u32| (*id < self.id_limit).then_some(*id as i32);
        encoding.get_ids().iter().map(known).collect::<Option<_>>().ok_or_else(
            || {
                Failure::new(
                    Code::Corrupt,
                    "encoding gave an id that is no token's",
                )
            },
        )
    }

    /// The crate's `encode_fast`, stage by stage.
    fn encoding(
        &self,
        text: &str,
        add_special_tokens: bool,
        is_left: &impl Fn() -> bool,
    ) -> tokenizers::Result<Encoding> {
        let go_on = || if is_left() { Err(Left) } else { Ok(()) };
        go_on()?;
        let added = self.inner.get_added_vocabulary();
        let mut words =
            added.extract_and_normalize(self.inner.get_normalizer(), text);
        go_on()?;
        if let Some(splitter) = self.inner.get_pre_tokenizer() {
            splitter.pre_tokenize(&mut words)?;
        }
        let model = self.inner.get_model();
        words.tokenize(|word| {
            go_on()?;
            model.tokenize(word.get())
        })?;
        go_on()?;
        let encoding = words.into_encoding(None, 0, OffsetType::None)?;
        go_on()?;
        self.inner.post_process(encoding, None, add_special_tokens)
    }

    pub fn decode(
        &self,
        ids: &[u32],
        skip_special_tokens: bool,
    ) -> Outcome<String> {
        self.inner.decode(ids, skip_special_tokens).map_err(|error| {
            Failure::new(Code::Corrupt, format!("cannot decode: {error}"))
        })
    }

    /// The decoders in order; None: tokens are joined by spaces.
    pub fn links(&self) -> Option<&[Link]> {
        self.links.as_deref()
    }

    pub fn id_limit(&self) -> u32 {
        self.id_limit
    }

    /// What one token stands for at most, if anything bounds it.
    pub fn max_token_bytes(&self) -> Option<usize> {
        self.max_token_bytes
    }

    pub fn named(&self) -> &Named {
        &self.named
    }

    pub fn token_text(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    pub fn id_of(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.token_text(id).is_some_and(|token| self.is_special_token(&token))
    }

    pub fn is_special_token(&self, token: &str) -> bool {
        self.inner.get_added_vocabulary().is_special_token(token)
    }
}

/// Why an encoding is not done.
#[derive(Debug)]
struct Left;

impl std::fmt::Display for Left {
    fn fmt(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
        to.write_str("nobody waits for it")
    }
}

impl std::error::Error for Left {}

fn parse(json: &NamedText) -> Outcome<Inner> {
    let corrupt =
        |error: &dyn std::fmt::Display| Failure::new(Code::Corrupt, error);
    let declared: Declared =
        serde_json::from_slice(json.text).map_err(|e| corrupt(&e))?;
    check_charsmaps(&declared.normalizer)?;
    check_growth(&declared.normalizer)?;
    let mut inner = Inner::from_bytes(json.text).map_err(|e| corrupt(&e))?;
    // A prompt is never cut or filled up silently, whatever training left.
    inner.with_truncation(None).map_err(|e| corrupt(&e))?;
    inner.with_padding(None);
    for token in &declared.added_tokens {
        check_id(&inner, &token.content, token.id)?;
    }
    Ok(inner)
}

/// One more than the highest id.
fn id_limit(inner: &Inner) -> Outcome<u32> {
    let vocab = inner.get_vocab(true);
    let Some((token, id)) = vocab.iter().max_by_key(|(_, id)| **id) else {
        return Ok(0);
    };
    if *id > MAX_ID {
        let what =
            format!("token {token:?}: id must be at most {MAX_ID}, is {id}");
        return Err(Failure::new(Code::Corrupt, what));
    }
    Ok(id + 1)
}
