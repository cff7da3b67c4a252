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

use crate::byte_fallback::ByteRun;
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
#[derive(Clone)]
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
            Some(links) => (0..links.len())
                .map(|i| Stage::new(&links[i], links.get(i + 1)))
                .collect(),
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

    /// Whether no later token is spelled otherwise for being a text's first.
    pub fn has_begun(&self) -> bool {
        self.stages.iter().all(|stage| match stage {
            Stage::Spaced { first } | Stage::FirstDiffers { first, .. } => {
                !first
            }
            Stage::StripEnds(strip) => strip.start_left == 0,
            _ => true,
        })
    }

    /// Whether it puts spaces between tokens, which are no token's own.
    pub fn puts_spaces(&self) -> bool {
        self.stages.iter().any(|stage| match stage {
            Stage::Spaced { .. } => true,
            Stage::FirstDiffers { decoder, .. } => {
                matches!(**decoder, DecoderWrapper::WordPiece(_))
            }
            _ => false,
        })
    }

    /// Whether, once it has begun, what the next token gives depends on the
    /// beginning of a character before it and on nothing else.
    pub fn forgets(&self) -> bool {
        self.stages.iter().all(|stage| match stage {
            Stage::Spaced { .. }
            | Stage::Each(_)
            | Stage::FirstDiffers { .. }
            | Stage::Fuse
            | Stage::ByteLevel(_) => true,
            Stage::ByteFallback(run) => run.by_character(),
            Stage::StripEnds(strip) => strip.stop == 0,
            Stage::Suffix { .. } | Stage::Ctc { .. } | Stage::Whole { .. } => {
                false
            }
        })
    }

    /// Whatever comes next completes no character.
    pub fn end_character(&mut self) -> Outcome<()> {
        let mut tokens = Vec::new();
        for stage in &mut self.stages {
            tokens = stage.push_all(tokens)?;
            if matches!(stage, Stage::ByteLevel(_) | Stage::ByteFallback(_)) {
                stage.finish(&mut tokens)?;
            }
        }
        Ok(())
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

#[derive(Clone)]
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
    /// `next`: the link that takes what it emits.
    fn new(link: &Link, next: Option<&Link>) -> Self {
        let decoder = Arc::clone(&link.decoder);
        match (&*link.decoder, link.fused) {
            (DecoderWrapper::Fuse(_), _) => Stage::Fuse,
            (DecoderWrapper::ByteLevel(_), false) => {
                Stage::ByteLevel(LossyUtf8::default())
            }
            (DecoderWrapper::ByteFallback(_), false) => {
                // Others see where a token ends.
                let joins = next.is_none_or(|next| {
                    matches!(*next.decoder, DecoderWrapper::Fuse(_))
                });
                Stage::ByteFallback(ByteRun::new(joins))
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

/// Strip on the fused token: up to `start` characters at its beginning, up to
/// `stop` at its end. Of a trailing run the last `stop` are held back.
#[derive(Clone)]
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
