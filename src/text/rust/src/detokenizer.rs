//! The tokens of one sequence on their way to text.

use std::sync::Arc;

use crate::byte_fallback::fallback_byte;
use crate::bytes::token_bytes;
use crate::failure::{fenced, Outcome};
use crate::stream::Stream;
use crate::tokenizer::Tokenizer;

/// Tokens before an answer that say all of what it goes on from: a character is
/// four bytes at most, and a token has one at least.
const NUM_REMEMBERED: usize = 8;

/// What a token would add to the text, were it the next.
pub struct Addition {
    pub text: String,
    /// The token's own bytes, whatever stands before it.
    pub bytes: Vec<u8>,
    /// It is left out of the text.
    pub is_skipped: bool,
    /// More text would be held back behind it.
    pub is_open: bool,
}

#[derive(Clone)]
pub struct Detokenizer {
    tokenizer: Arc<Tokenizer>,
    stream: Stream,
    skip_special_tokens: bool,
    /// The end of what it follows as that was told, which the stream may give
    /// again.
    told: String,
    /// What may be that.
    held: String,
}

impl Detokenizer {
    pub fn new(tokenizer: Arc<Tokenizer>, skip_special_tokens: bool) -> Self {
        let stream = Stream::new(tokenizer.links());
        Detokenizer {
            tokenizer,
            stream,
            skip_special_tokens,
            told: String::new(),
            held: String::new(),
        }
    }

    /// Whether what comes next begins a text: the decoder spells it otherwise
    /// than behind other text.
    pub fn begins(&self) -> bool {
        !self.stream.has_begun()
    }

    pub fn puts_spaces(&self) -> bool {
        self.stream.puts_spaces()
    }

    /// Goes on behind `ids`, which have been told: the whole decoded, less
    /// `ids` decoded, is what will come.
    pub fn follow(&mut self, ids: &[u32]) -> Outcome<()> {
        let Detokenizer { tokenizer, stream, skip_special_tokens, .. } = self;
        let mut tokens = ids
            .iter()
            .filter_map(|id| token_of(tokenizer, *id, *skip_special_tokens));
        while !(stream.forgets() && stream.has_begun()) {
            let Some(token) = tokens.next() else { break };
            stream.push(token)?;
        }
        let last: Vec<String> = tokens.rev().take(NUM_REMEMBERED).collect();
        for token in last.into_iter().rev() {
            stream.push(token)?;
        }
        self.told = self.stream.clone().finish()?;
        Ok(())
    }

    /// Ids that name no token, and special ones where they are skipped, count
    /// as absent, as in Tokenizer::decode.
    pub fn push(&mut self, id: u32) -> Outcome<String> {
        let token = token_of(&self.tokenizer, id, self.skip_special_tokens);
        let Some(token) = token else { return Ok(String::new()) };
        let text = self.stream.push(token)?;
        Ok(self.less_told(text))
    }

    pub fn finish(&mut self) -> Outcome<String> {
        let text = self.stream.finish()?;
        let rest = self.less_told(text);
        Ok(if self.told.is_empty() {
            rest
        } else {
            std::mem::take(&mut self.held)
        })
    }

    pub fn peek(&self, id: u32) -> Outcome<Addition> {
        let token = self.tokenizer.token_text(id);
        let is_skipped = token.as_ref().is_none_or(|token| {
            self.skip_special_tokens && self.tokenizer.is_special_token(token)
        });
        let token = token.unwrap_or_default();
        let mut after = self.clone();
        let text = after.push(id)?;
        let bytes = if is_skipped {
            token.into_bytes()
        } else {
            self.own_bytes(id, token)
        };
        let rest = fenced(|| after.finish());
        let is_open = rest.is_ok_and(|rest| !rest.is_empty());
        Ok(Addition { text, bytes, is_skipped, is_open })
    }

    /// A decoder that cannot take a token by itself leaves it as it is.
    fn own_bytes(&self, id: u32, token: String) -> Vec<u8> {
        let Some(needs) = self.stream.needs() else {
            let alone = fenced(|| self.tokenizer.decode(&[id], false));
            return alone.unwrap_or(token).into_bytes();
        };
        if needs.byte_level {
            return token_bytes(&token);
        }
        if let Some(byte) = fallback_byte(&token) {
            if needs.byte_fallback {
                return vec![byte];
            }
        }
        let mut alone = self.stream.clone();
        let text = fenced(|| {
            alone.end_character()?;
            alone.push(token.clone())
        });
        text.unwrap_or(token).into_bytes()
    }

    /// `text`, but for what was told already.
    fn less_told(&mut self, text: String) -> String {
        if self.told.is_empty() {
            return text;
        }
        self.held.push_str(&text);
        if self.told.starts_with(&self.held)
            && self.told.len() > self.held.len()
        {
            return String::new();
        }
        let told = std::mem::take(&mut self.told);
        let held = std::mem::take(&mut self.held);
        match held.strip_prefix(&told) {
            Some(rest) => rest.to_owned(),
            None => held,
        }
    }
}

fn token_of(
    tokenizer: &Tokenizer,
    id: u32,
    skip_special_tokens: bool,
) -> Option<String> {
    let token = tokenizer.token_text(id)?;
    let is_skipped = skip_special_tokens && tokenizer.is_special_token(&token);
    (!is_skipped).then_some(token)
}
