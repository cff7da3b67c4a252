//! Grammars that hold an answer's text, and which tokens keep within them:
//! llguidance, with what it leaves to its callers.

use std::sync::Arc;
use std::time::Duration;

use llguidance::api::{
    GrammarWithLexer, ParserLimits, StopReason, TopLevelGrammar,
};
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{
    ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie,
};
use llguidance::{regex_to_lark, Matcher as Inner, ParserFactory};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::complaints::reworded;
use crate::failure::{Code, Failure, Outcome};
use crate::held_schema::{held, Unheld};
use crate::schema_limits::{check_expression, check_schema};
use crate::spelling::Spellings;
use crate::stack::on_large_stack;
use crate::tokenizer::Tokenizer;
use crate::white_space::with_white_space;

/// What stands for the end where a model has no token for it.
const NAMELESS_END: &[u8] = b"\xff<end>";
/// How deep brackets nest in a grammar's text: its parsers recurse.
const MAX_NESTING: usize = 256;
const USER: &str = "user";
/// What an answer is that calls no tools, where it may be either.
const OTHERWISE: &str = "otherwise";
/// Of a Lark grammar, whose terminals may nest them: the time that this takes
/// grows with the third power of the depth (400: 0.3 s).
const MAX_REPETITIONS: usize = 256;
/// Earley's items for one mask: some 20 ms of the worst grammars.
const MAX_MASK_ITEMS: usize = 20_000;
/// What all masks of a text may take beside their mean.
const MASKS_BURST: Duration = Duration::from_millis(500);

/// The numbers are those of WinnowGrammarKind in winnow_text.h.
#[derive(Clone, Copy)]
pub enum Kind {
    JsonSchema = 0,
    Regex = 1,
    Choice = 2,
    Lark = 3,
    Calls = 4,
}

impl Kind {
    pub fn of(number: i32) -> Option<Self> {
        [Kind::JsonSchema, Kind::Regex, Kind::Choice, Kind::Lark, Kind::Calls]
            .into_iter()
            .find(|kind| *kind as i32 == number)
    }
}

/// Those of WinnowGrammarLimits in winnow_text.h.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Limits {
    pub max_bytes: usize,
    pub max_compile_work: u64,
    pub max_mask_work: u64,
    pub max_states: usize,
    pub max_mask_us: u64,
}

/// A model's vocabulary, ready to be held to grammars. Threads may share it.
pub struct Vocabulary {
    factory: ParserFactory,
    leading_space: bool,
    vocab_size: usize,
    limits: Limits,
}

impl Vocabulary {
    /// `ends`: the tokens that end a text.
    pub fn new(
        tokenizer: &Tokenizer,
        vocab_size: usize,
        ends: &[u32],
        limits: Limits,
    ) -> Outcome<Self> {
        let Spellings { mut bytes, leading_space } =
            Spellings::of(tokenizer, vocab_size, ends)?;
        let mut ends: Vec<u32> = ends
            .iter()
            .copied()
            .filter(|id| (*id as usize) < vocab_size)
            .collect();
        if ends.is_empty() {
            ends.push(vocab_size as u32);
            bytes.push(NAMELESS_END.to_vec());
        }
        let info = TokRxInfo::new(bytes.len() as u32, ends[0]);
        let trie = TokTrie::from(&info, &bytes).with_eos_tokens(&ends);
        let tokens: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new(
            &tokens,
            InferenceCapabilities::default(),
            &SlicedBiasComputer::general_slices(),
        )
        .map_err(|error| invalid(&error.to_string()))?;
        *factory.quiet().limits_mut() = ParserLimits {
            initial_lexer_fuel: limits.max_compile_work,
            step_lexer_fuel: limits.max_mask_work,
            max_lexer_states: limits.max_states,
            step_max_items: MAX_MASK_ITEMS,
            verbose_errors: false,
            ..ParserLimits::default()
        };
        Ok(Vocabulary { factory, leading_space, vocab_size, limits })
    }

    /// A matcher at the beginning of an answer, which `begins` a text or goes
    /// on behind one. `white_space`: of a schema's values, where it is not the
    /// usual.
    pub fn compile(
        &self,
        kind: Kind,
        text: &str,
        white_space: Option<&str>,
        begins: bool,
    ) -> Outcome<Matcher> {
        let most = self.limits.max_bytes;
        if text.len() > most {
            let what =
                format!("must be at most {most} bytes, is {}", text.len());
            return Err(Failure::new(Code::ResourceExhausted, what));
        }
        check_nesting(text)?;
        on_large_stack(|| {
            let mut grammars = user_grammars(kind, text, white_space)?;
            if self.leading_space && begins {
                let outer = format!("start: \" \" @{USER}");
                grammars.insert(0, GrammarWithLexer::from_lark(outer));
            }
            let top = TopLevelGrammar { grammars, max_tokens: None };
            let inner = Inner::new(self.factory.create_parser(top));
            match inner.get_error() {
                Some(error) => Err(invalid(&error)),
                None => Ok(Matcher {
                    inner,
                    vocab_size: self.vocab_size,
                    mean: Duration::from_micros(self.limits.max_mask_us),
                    max_states: self.limits.max_states,
                    allowance: MASKS_BURST,
                }),
            }
        })
    }
}

/// What a model writes that calls tools: Lark, in which "@NAME" is a value that
/// the schema NAME describes, and "@otherwise" what `otherwise` is.
#[derive(Deserialize)]
struct Calls {
    lark: String,
    schemas: Map<String, Value>,
    otherwise: Option<Otherwise>,
}

#[derive(Deserialize)]
struct Otherwise {
    kind: i32,
    source: String,
}

/// The first is named USER; the others are those that it names.
fn user_grammars(
    kind: Kind,
    text: &str,
    white_space: Option<&str>,
) -> Outcome<Vec<GrammarWithLexer>> {
    let Kind::Calls = kind else {
        return Ok(vec![user_grammar(kind, text, white_space)?]);
    };
    let calls: Calls = parsed(text)?;
    let mut grammars =
        vec![named(USER, GrammarWithLexer::from_lark(calls.lark))];
    for (name, schema) in calls.schemas {
        grammars.push(schema_grammar(&name, schema, None)?);
    }
    if let Some(Otherwise { kind, source }) = calls.otherwise {
        let kind = Kind::of(kind).ok_or_else(|| invalid("no such kind"))?;
        let otherwise = user_grammar(kind, &source, white_space)?;
        grammars.push(named(OTHERWISE, otherwise));
    }
    Ok(grammars)
}

fn named(name: &str, grammar: GrammarWithLexer) -> GrammarWithLexer {
    GrammarWithLexer { name: Some(name.to_owned()), ..grammar }
}

/// One that names no other, with the name USER.
fn user_grammar(
    kind: Kind,
    text: &str,
    white_space: Option<&str>,
) -> Outcome<GrammarWithLexer> {
    let lark =
        |source: String| named(USER, GrammarWithLexer::from_lark(source));
    Ok(match kind {
        Kind::JsonSchema => schema_grammar(USER, parsed(text)?, white_space)?,
        Kind::Regex => {
            check_expression("the expression", text)?;
            lark(format!("start: /{}/", regex_to_lark(text, "")))
        }
        Kind::Choice => {
            let choices: Vec<String> = parsed(text)?;
            let choices: Vec<String> =
                choices.iter().map(|choice| quoted(choice)).collect();
            // One regular expression: of rules the parser bears 2,000.
            lark(format!("start: CHOICE\nCHOICE: {}", choices.join(" | ")))
        }
        Kind::Lark => {
            check_lark(text)?;
            lark(text.to_owned())
        }
        Kind::Calls => return Err(invalid("calls stand in no others")),
    })
}

/// As a string of Lark, which has JSON's escapes and wants this one besides.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn parsed<'a, T: Deserialize<'a>>(json: &'a str) -> Outcome<T> {
    serde_json::from_str(json).map_err(|error| invalid(&error.to_string()))
}

fn schema_grammar(
    name: &str,
    schema: Value,
    white_space: Option<&str>,
) -> Outcome<GrammarWithLexer> {
    let schema = held(&schema, Unheld::Refused)?.schema;
    check_schema(&schema, schema.to_string().len())?;
    let schema = with_white_space(schema, white_space)?;
    Ok(named(name, GrammarWithLexer::from_json_schema(schema)))
}

/// Intersections and complements have no bound in time (schema_limits), nor
/// have what schemas make of them. That a string may hold these too is not
/// looked at: it can spell them otherwise.
fn check_lark(source: &str) -> Outcome<()> {
    for (word, instead) in [
        ("&", "in a string write \\x26"),
        ("~", "in a string write \\x7e"),
        ("%json", "a schema has fields of its own"),
        ("%regex", "write /.../"),
    ] {
        if source.contains(word) {
            let what = format!("\"{word}\" must be absent: {instead}");
            return Err(Failure::new(Code::InvalidArgument, what));
        }
    }
    let signs = source.bytes().filter(|c| matches!(c, b'*' | b'+' | b'{'));
    let num_repetitions = signs.count();
    if num_repetitions > MAX_REPETITIONS {
        let what = format!(
            "\"*\", \"+\" and \"{{\" must be at most {MAX_REPETITIONS}, are \
             {num_repetitions}"
        );
        return Err(Failure::new(Code::ResourceExhausted, what));
    }
    Ok(())
}

/// Brackets in strings and classes count too: none in use has so many.
pub fn check_nesting(text: &str) -> Outcome<()> {
    let mut depth: usize = 0;
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            let what = format!(
                "brackets must nest at most {MAX_NESTING} deep, are deeper"
            );
            return Err(Failure::new(Code::ResourceExhausted, what));
        }
    }
    Ok(())
}

/// What llguidance adds to a message about its own state is nobody's concern.
fn invalid(message: &str) -> Failure {
    let end = ["\n<state>", "\n<non-verbose/>", "\n<backtrace>"]
        .iter()
        .filter_map(|tag| message.find(tag))
        .min()
        .unwrap_or(message.len());
    Failure::new(Code::InvalidArgument, reworded(&message[..end]))
}

/// Where one text stands in its grammar. One thread at a time, also of those
/// that were cloned from one another: they share what they have learned.
#[derive(Clone)]
pub struct Matcher {
    inner: Inner,
    vocab_size: usize,
    mean: Duration,
    max_states: usize,
    /// What masks and tokens may still take of a processor's time.
    allowance: Duration,
}

impl Matcher {
    /// Bit i % 32 of word i / 32: token i may come next.
    pub fn mask(&mut self, words: &mut [u32]) -> Outcome<()> {
        words.fill(0);
        self.allowance += self.mean;
        let mask = self.timed(Inner::compute_mask_or_eos)?;
        for (word, bits) in words.iter_mut().zip(mask.as_slice()) {
            *word = *bits;
        }
        let num_whole = self.vocab_size / 32;
        if let Some(last) = words.get_mut(num_whole) {
            *last &= (1 << (self.vocab_size % 32)) - 1;
        }
        if words.iter().all(|word| *word == 0) {
            return Err(no_token());
        }
        Ok(())
    }

    pub fn accept(&mut self, id: u32) -> Outcome<()> {
        self.timed(|inner| inner.consume_token(id))
    }

    /// Nothing may follow.
    pub fn is_complete(&self) -> bool {
        self.inner.is_stopped()
    }

    /// Whatever the fuel misses is paid for by time: at most once, for the text
    /// ends then.
    fn timed<T, E: std::fmt::Display>(
        &mut self,
        work: impl FnOnce(&mut Inner) -> Result<T, E>,
    ) -> Outcome<T> {
        if self.allowance.is_zero() {
            return Err(too_slow(self.mean));
        }
        let began = thread_time();
        let done = work(&mut self.inner);
        let spent = thread_time().saturating_sub(began);
        self.allowance = self.allowance.saturating_sub(spent);
        if self.allowance.is_zero() {
            return Err(too_slow(self.mean));
        }
        done.map_err(|error| {
            let message = error.to_string();
            if message.starts_with(&StopReason::NoExtensionBias.to_string()) {
                return no_token();
            }
            // Of a token that a mask has let in, the latter says nothing else.
            if message.contains("too many states")
                || message.contains("Parser Error: ")
            {
                return too_many_states(self.max_states);
            }
            invalid(&message)
        })
    }
}

fn too_slow(mean: Duration) -> Failure {
    let what = format!(
        "masks must take at most {mean:?} of a processor's time each, in the \
         mean, take more"
    );
    Failure::new(Code::ResourceExhausted, what)
}

fn too_many_states(most: usize) -> Failure {
    let what = format!("states must be at most {most}, are more");
    Failure::new(Code::ResourceExhausted, &what)
}

fn no_token() -> Failure {
    let what = "no token of the vocabulary may come next";
    Failure::new(Code::InvalidArgument, what)
}

/// The processor's time of this thread.
fn thread_time() -> Duration {
    // SAFETY: clock_gettime writes into what it is given.
    let time = unsafe {
        let mut time = std::mem::zeroed::<libc::timespec>();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
        time
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
