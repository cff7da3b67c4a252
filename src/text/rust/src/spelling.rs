//! What each token adds to a text, in bytes: the vocabulary as a grammar reads
//! it.

use crate::byte_fallback::fallback_byte;
use crate::bytes::token_bytes;
use crate::failure::{Code, Failure, Outcome};
use crate::stream::{Link, Needs, Stream};
use crate::tokenizer::Tokenizer;

/// What stands before the name of a token that adds no text. No text has this
/// byte: it is not UTF-8.
const NO_TEXT: u8 = 0xff;
/// Longer tokens are left out (the trie's depth is 1024).
const MAX_TOKEN_BYTES: usize = 1000;

/// What the tokens of a vocabulary spell.
pub struct Spellings {
    /// By id. Empty: no token, or one that is never to be chosen.
    pub bytes: Vec<Vec<u8>>,
    /// A text's first token loses a space at its beginning, which every text
    /// then has: "a b" is spelled " a b".
    pub leading_space: bool,
}

impl Spellings {
    /// Of the ids below `vocab_size`; `ends` are never text.
    pub fn of(
        tokenizer: &Tokenizer,
        vocab_size: usize,
        ends: &[u32],
    ) -> Outcome<Self> {
        let mut speller = Speller::new(tokenizer.links())?;
        let mut bytes = Vec::with_capacity(vocab_size + 1);
        for id in 0..vocab_size as u32 {
            let Some(token) = tokenizer.token_text(id) else {
                bytes.push(Vec::new());
                continue;
            };
            let spelled = if tokenizer.is_special(id) || ends.contains(&id) {
                [&[NO_TEXT], token.as_bytes()].concat()
            } else {
                speller.spell(token)?
            };
            bytes.push(if spelled.len() > MAX_TOKEN_BYTES {
                Vec::new()
            } else {
                spelled
            });
        }
        Ok(Spellings { bytes, leading_space: speller.leading_space })
    }
}

struct Speller<'a> {
    links: Option<&'a [Link]>,
    needs: Needs,
    /// A text that has begun: what it gives for a token is what the token adds.
    begun: Stream,
    leading_space: bool,
}

impl<'a> Speller<'a> {
    fn new(links: Option<&'a [Link]>) -> Outcome<Self> {
        let mut begun = Stream::new(links);
        let needs = begun.needs().ok_or_else(|| {
            let what = "the tokenizer's decoder gives no text token by token: \
                        answers cannot be held to a grammar";
            Failure::new(Code::InvalidArgument, what)
        })?;
        begun.push("a".to_owned())?;
        let leading_space = needs.first_differs;
        Ok(Speller { links, needs, begun, leading_space })
    }

    fn spell(&mut self, token: String) -> Outcome<Vec<u8>> {
        if self.needs.byte_level {
            return Ok(token_bytes(&token));
        }
        if let Some(byte) = fallback_byte(&token) {
            if self.needs.byte_fallback {
                return Ok(vec![byte]);
            }
        }
        let text = self.begun.push(token.clone())?;
        if self.leading_space && text.starts_with(' ') {
            let first = Stream::new(self.links).push(token)?;
            if first != text[1..] {
                let what = format!(
                    "token {text:?} must lose a space where a text begins, \
                     is {first:?}: answers cannot be held to a grammar"
                );
                return Err(Failure::new(Code::InvalidArgument, what));
            }
        }
        Ok(text.into_bytes())
    }
}
