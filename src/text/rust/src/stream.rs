//! Decoding token by token, with the same text as decoding all at once.
//!
//! A decoder of the `tokenizers` crate maps the list of all tokens to a list
//! of strings. Here each becomes a stage that takes one token at a time, emits
//! what no later token can change, and keeps no more than that demands.
//!
//! Some decoders (Fuse, ByteLevel) make one token of all: stages after them
//! see that one token in pieces. A stage that cannot work on pieces holds them
//! back until the end; no tokenizer in use has one.

use std::sync::Arc;

use tokenizers::{Decoder, DecoderWrapper};

use crate::bytes::{token_bytes, LossyUtf8};
use crate::failure::{Code, Failure, Outcome};

/// One decoder of a chain, ready to be run on streams.
#[derive(Clone)]
pub struct Link {
    decoder: Arc<DecoderWrapper>,
    fused: bool,
}

/// The leaves of `decoder` in order, each with what arrives at it.
pub fn chain(decoder: &DecoderWrapper) -> Vec<Link> {
    let mut links = Vec::new();
    flatten(decoder, &mut links);
    let mut fused = false;
    for link in &mut links {
        link.fused = fused;
        fused |= matches!(
            *link.decoder,
            DecoderWrapper::Fuse(_) | DecoderWrapper::ByteLevel(_)
        );
    }
    links
}

fn flatten(decoder: &DecoderWrapper, links: &mut Vec<Link>) {
    if let DecoderWrapper::Sequence(sequence) = decoder {
        for inner in sequence.get_decoders() {
            flatten(inner, links);
        }
    } else {
        let decoder = Arc::new(decoder.clone());
        links.push(Link { decoder, fused: false });
    }
}

/// The decoding of one sequence of tokens under way.
pub struct Stream {
    stages: Vec<Stage>,
}

/// How a chain of decoders turns one token into text.
#[derive(Default)]
pub struct Needs {
    pub byte_level: bool,
    pub byte_fallback: bool,
    /// The first token of a text gives another text than later ones.
    pub first_differs: bool,
}

impl Stream {
    /// `links`: None for a tokenizer without decoder, which joins by spaces.
    pub fn new(links: Option<&[Link]>) -> Self {
        let stages = match links {
            None => vec![Stage::Spaced { first: true }],
            Some(links) => links.iter().map(Stage::new).collect(),
        };
        Stream { stages }
    }

    /// None where what a token gives depends on more than whether it is the
    /// first.
    pub fn needs(&self) -> Option<Needs> {
        let mut needs = Needs::default();
        for stage in &self.stages {
            match stage {
                Stage::Each(_) | Stage::Fuse => {}
                Stage::ByteLevel(_) => needs.byte_level = true,
                Stage::ByteFallback(_) => needs.byte_fallback = true,
                Stage::Spaced { .. } | Stage::FirstDiffers { .. } => {
                    needs.first_differs = true;
                }
                Stage::StripEnds(strip) if strip.stop == 0 => {
                    needs.first_differs |= strip.start_left > 0;
                }
                Stage::StripEnds(_)
                | Stage::Suffix { .. }
                | Stage::Ctc { .. }
                | Stage::Whole { .. } => return None,
            }
        }
        let alone = !needs.byte_level
            || self.stages.iter().all(|stage| {
                matches!(stage, Stage::ByteLevel(_) | Stage::Fuse)
            });
        alone.then_some(needs)
    }

    /// Takes the next token; returns the text that is now certain.
    pub fn push(&mut self, token: String) -> Outcome<String> {
        let mut tokens = vec![token];
        for stage in &mut self.stages {
            tokens = stage.push_all(tokens)?;
        }
        Ok(tokens.concat())
    }

    /// Returns the rest of the text.
    pub fn finish(&mut self) -> Outcome<String> {
        let mut tokens = Vec::new();
        for stage in &mut self.stages {
            tokens = stage.push_all(tokens)?;
            stage.finish(&mut tokens)?;
        }
        Ok(tokens.concat())
    }
}

enum Stage {
    /// No decoder: a space before each token but the first.
    Spaced {
        first: bool,
    },
    /// Each token, or each character of the fused one, by itself.
    Each(Arc<DecoderWrapper>),
    /// Each token by itself, but the first otherwise than the others.
    FirstDiffers {
        decoder: Arc<DecoderWrapper>,
        first: bool,
    },
    /// Hands on what it gets; what follows takes it for one token.
    Fuse,
    /// Tokens spell bytes; the bytes are one UTF-8 text.
    ByteLevel(LossyUtf8),
    ByteFallback(ByteRun),
    /// Each token by itself, but the last otherwise than the others.
    Suffix {
        suffix: String,
        last: Option<String>,
    },
    /// Drops a token that repeats the one before.
    Ctc {
        decoder: Arc<DecoderWrapper>,
        last: Option<String>,
    },
    /// Strips the ends of the fused token.
    StripEnds(StripEnds),
    /// Whatever needs the whole fused token.
    Whole {
        decoder: Arc<DecoderWrapper>,
        text: String,
    },
}

impl Stage {
    fn new(link: &Link) -> Self {
        let decoder = Arc::clone(&link.decoder);
        match (&*link.decoder, link.fused) {
            (DecoderWrapper::Fuse(_), _) => Stage::Fuse,
            (DecoderWrapper::ByteLevel(_), false) => {
                Stage::ByteLevel(LossyUtf8::default())
            }
            (DecoderWrapper::ByteFallback(_), false) => {
                Stage::ByteFallback(ByteRun::default())
            }
            (DecoderWrapper::Replace(_) | DecoderWrapper::Strip(_), false) => {
                Stage::Each(decoder)
            }
            (
                DecoderWrapper::WordPiece(_) | DecoderWrapper::Metaspace(_),
                false,
            ) => Stage::FirstDiffers { decoder, first: true },
            (DecoderWrapper::BPE(bpe), false) => {
                Stage::Suffix { suffix: bpe.suffix.clone(), last: None }
            }
            (DecoderWrapper::CTC(_), false) => {
                Stage::Ctc { decoder, last: None }
            }
            (DecoderWrapper::Metaspace(_), true) => Stage::Each(decoder),
            (DecoderWrapper::Replace(_), true)
                if replaces_one_char(&decoder) =>
            {
                Stage::Each(decoder)
            }
            (DecoderWrapper::Strip(strip), true) => Stage::StripEnds(
                StripEnds::new(strip.content, strip.start, strip.stop),
            ),
            _ => Stage::Whole { decoder, text: String::new() },
        }
    }

    fn push_all(&mut self, tokens: Vec<String>) -> Outcome<Vec<String>> {
        let mut out = Vec::with_capacity(tokens.len());
        for token in tokens {
            self.push(token, &mut out)?;
        }
        Ok(out)
    }

    fn push(&mut self, token: String, out: &mut Vec<String>) -> Outcome<()> {
        match self {
            Stage::Spaced { first } => {
                out.push(if *first { token } else { format!(" {token}") });
                *first = false;
            }
            Stage::Each(decoder) => out.extend(decode(decoder, vec![token])?),
            Stage::FirstDiffers { decoder, first: first @ true } => {
                out.extend(decode(decoder, vec![token])?);
                *first = false;
            }
            Stage::FirstDiffers { decoder, first: false } => {
                let pair = decode(decoder, vec![String::new(), token])?;
                out.extend(pair.into_iter().skip(1));
            }
            Stage::Fuse => out.push(token),
            Stage::ByteLevel(utf8) => out.push(utf8.push(&token_bytes(&token))),
            Stage::ByteFallback(run) => run.push(token, out),
            Stage::Suffix { suffix, last } => {
                if let Some(before) = last.replace(token) {
                    out.push(before.replace(suffix.as_str(), " "));
                }
            }
            Stage::Ctc { decoder, last } => {
                if last.as_deref() != Some(&token) {
                    *last = Some(token.clone());
                    out.extend(decode(decoder, vec![token])?);
                }
            }
            Stage::StripEnds(strip) => out.push(strip.push(&token)),
            Stage::Whole { text, .. } => text.push_str(&token),
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<String>) -> Outcome<()> {
        match self {
            Stage::ByteLevel(utf8) => out.push(utf8.finish()),
            Stage::ByteFallback(run) => run.end(out),
            Stage::Suffix { suffix, last } => {
                out.extend(
                    last.take().map(|token| token.replace(suffix.as_str(), "")),
                );
            }
            Stage::Whole { decoder, text } => {
                out.extend(decode(decoder, vec![std::mem::take(text)])?);
            }
            _ => {}
        }
        Ok(())
    }
}

fn decode(
    decoder: &DecoderWrapper,
    tokens: Vec<String>,
) -> Outcome<Vec<String>> {
    decoder.decode_chain(tokens).map_err(|error| {
        Failure::new(Code::Corrupt, format!("decoder: {error}"))
    })
}

/// Whether a Replace looks for one fixed character: then no match spans the
/// border of two pieces.
fn replaces_one_char(decoder: &DecoderWrapper) -> bool {
    serde_json::to_value(decoder).is_ok_and(|value| {
        value["pattern"]["String"]
            .as_str()
            .is_some_and(|pattern| pattern.chars().count() == 1)
    })
}

/// ByteFallback: a run of tokens <0x00> to <0xFF> is one string if it is valid
/// UTF-8 as a whole, else a replacement character for every byte. So a run
/// that may still be valid is held back; one that cannot be any more is not.
#[derive(Default)]
struct ByteRun {
    bytes: Vec<u8>,
    num_checked: usize,
    broken: bool,
}

impl ByteRun {
    fn push(&mut self, token: String, out: &mut Vec<String>) {
        let Some(byte) = fallback_byte(&token) else {
            self.end(out);
            out.push(token);
            return;
        };
        if !self.broken {
            self.bytes.push(byte);
            self.check();
            if self.broken {
                self.replace_bytes(out);
            }
        } else {
            out.push(char::REPLACEMENT_CHARACTER.into());
        }
    }

    fn check(&mut self) {
        match std::str::from_utf8(&self.bytes[self.num_checked..]) {
            Ok(_) => self.num_checked = self.bytes.len(),
            Err(error) => {
                self.num_checked += error.valid_up_to();
                self.broken = error.error_len().is_some();
            }
        }
    }

    fn end(&mut self, out: &mut Vec<String>) {
        if self.num_checked == self.bytes.len() && !self.bytes.is_empty() {
            let bytes = std::mem::take(&mut self.bytes);
            out.push(String::from_utf8(bytes).expect("checked byte by byte"));
        } else {
            self.replace_bytes(out);
        }
        *self = ByteRun::default();
    }

    fn replace_bytes(&mut self, out: &mut Vec<String>) {
        for _ in self.bytes.drain(..) {
            out.push(char::REPLACEMENT_CHARACTER.into());
        }
    }
}

/// The byte that a token of ByteFallback stands for.
pub fn fallback_byte(token: &str) -> Option<u8> {
    if token.len() != 6 || !token.starts_with("<0x") || !token.ends_with('>') {
        return None;
    }
    u8::from_str_radix(&token[3..5], 16).ok()
}

/// Strip on the fused token: up to `start` characters at its beginning, up to
/// `stop` at its end. Of a trailing run the last `stop` are held back.
struct StripEnds {
    content: char,
    start_left: usize,
    stop: usize,
    num_held: usize,
}

impl StripEnds {
    fn new(content: char, start: usize, stop: usize) -> Self {
        StripEnds { content, start_left: start, stop, num_held: 0 }
    }

    fn push(&mut self, piece: &str) -> String {
        let mut out = String::with_capacity(piece.len());
        for c in piece.chars() {
            if c != self.content {
                self.start_left = 0;
                out.extend(std::iter::repeat(self.content).take(self.num_held));
                self.num_held = 0;
                out.push(c);
            } else if self.start_left > 0 {
                self.start_left -= 1;
            } else if self.num_held < self.stop {
                self.num_held += 1;
            } else {
                out.push(c);
            }
        }
        out
    }
}
