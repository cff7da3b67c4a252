//! Chat templates as Hugging Face transformers renders them.

use std::io;

use minijinja::value::Serde;
use minijinja::{context, Environment, ErrorKind, Value};
use serde_json::Value as Json;

use crate::config::{parse_config, token_content};
use crate::dialect;
use crate::failure::{Code, Failure, Outcome};
use crate::stack::on_large_stack;
use crate::NamedText;

/// Instructions of minijinja's machine; a conversation of a thousand messages
/// takes some 10^5.
const MAX_STEPS: u64 = 10_000_000;
const MAX_OUTPUT_BYTES: usize = 64 << 20;
/// How deep macros call one another. A list in a list in a list, built by a
/// loop of MAX_STEPS, is freed by recursion too: on_large_stack.
const MAX_DEPTH: usize = 100;

const NAME: &str = "chat";
/// Where a checkpoint has another template for chats with tools.
const TOOL_NAME: &str = "tool_use";
const SPECIAL_TOKENS: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// What one rendering is about.
pub struct Input<'a> {
    /// A JSON array.
    pub messages: &'a [u8],
    /// A JSON object whose members become variables of the template; they go
    /// before special tokens and defaults.
    pub extra: Option<&'a [u8]>,
    /// What the template's clock shows.
    pub now_unix_s: i64,
    pub add_generation_prompt: bool,
}

/// A compiled template and the special tokens it may name. Threads may share
/// it.
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// Where the template came from: what its errors name.
    origin: String,
    special_tokens: Vec<(&'static str, String)>,
}

impl ChatTemplate {
    /// `jinja` goes before "chat_template" in `config`.
    pub fn load(
        jinja: Option<&NamedText>,
        config: Option<&NamedText>,
    ) -> Outcome<ChatTemplate> {
        let parsed =
            config.map(parse_config).transpose()?.unwrap_or(Json::Null);
        let (origin, sources) = match (jinja, config) {
            (Some(jinja), _) => {
                let source = crate::failure::utf8(jinja.text)
                    .map_err(|f| f.of(&jinja.name))?;
                (jinja.name.clone(), vec![(NAME, source.to_owned())])
            }
            (None, Some(config)) => {
                let origin = format!("{}: chat_template", config.name);
                let sources =
                    config_sources(&parsed).map_err(|f| f.of(&origin))?;
                (origin, sources)
            }
            (None, None) => {
                return Err(Failure::new(Code::NotFound, "no chat template"))
            }
        };
        let special_tokens = SPECIAL_TOKENS
            .into_iter()
            .filter_map(|key| Some((key, token_content(&parsed, key)?)))
            .collect();
        let environment =
            on_large_stack(|| compile(sources)).map_err(|f| f.of(&origin))?;
        Ok(ChatTemplate { environment, origin, special_tokens })
    }

    /// The source of the template that renders chats with tools.
    pub fn tool_source(&self) -> String {
        [TOOL_NAME, NAME]
            .into_iter()
            .find_map(|name| self.environment.get_template(name).ok())
            .map_or(String::new(), |template| template.source().to_owned())
    }

    pub fn render(&self, input: &Input) -> Outcome<String> {
        let messages = argument("messages", input.messages)?;
        if !messages.is_array() {
            return Err(invalid("messages: must be a JSON array"));
        }
        let extra = argument("extra", input.extra.unwrap_or(b"{}"))?;
        if !extra.is_object() {
            return Err(invalid("extra: must be a JSON object"));
        }
        let (add_generation_prompt, now) =
            (input.add_generation_prompt, input.now_unix_s);
        let with_tools =
            extra.get("tools").is_some_and(|tools| !tools.is_null())
                && self.environment.get_template(TOOL_NAME).is_ok();
        let name = if with_tools { TOOL_NAME } else { NAME };
        on_large_stack(|| {
            let clock = move |format: String| dialect::strftime(now, &format);
            let given = context! {
                messages => Value::from(Serde(&messages)),
                strftime_now => Value::from_function(clock),
            };
            let defaults = context! {
                tools => (), documents => (), add_generation_prompt
            };
            let tokens = Value::from_pairs(self.special_tokens.iter().cloned());
            let asked = Value::from(Serde(&extra));
            self.run(
                name,
                context! { ..given, ..asked, ..tokens, ..defaults },
            )
        })
        .map_err(|failure| failure.of(&self.origin))
    }

    fn run(&self, name: &str, variables: Value) -> Outcome<String> {
        let mut output = Bounded::default();
        let template =
            self.environment.get_template(name).map_err(|e| told(&e))?;
        match template.render_captured_to(variables, &mut output) {
            Ok(_) => Ok(String::from_utf8_lossy(&output.bytes).into_owned()),
            Err(_) if output.full => Err(Failure::new(
                Code::ResourceExhausted,
                format!(
                    "text must be at most {MAX_OUTPUT_BYTES} bytes, is longer"
                ),
            )),
            Err(error) => Err(told(&error)),
        }
    }
}

/// A template's name here and its text.
type Source = (&'static str, String);

fn compile(sources: Vec<Source>) -> Outcome<Environment<'static>> {
    let mut environment = dialect::environment();
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_recursion_limit(MAX_DEPTH);
    for (name, source) in sources {
        environment
            .add_template_owned(name, dialect::without_generation_tags(&source))
            .map_err(|e| told(&e))?;
    }
    Ok(environment)
}

/// "chat_template": a string, or a list of {"name", "template"}, of which the
/// one named "default" must be there and "tool_use" may be.
fn config_sources(config: &Json) -> Outcome<Vec<Source>> {
    let corrupt = |what: &str| Failure::new(Code::Corrupt, what);
    match config.get("chat_template") {
        None | Some(Json::Null) => {
            Err(Failure::new(Code::NotFound, "not there"))
        }
        Some(Json::String(source)) => Ok(vec![(NAME, source.clone())]),
        Some(Json::Array(named)) => {
            let find = |name: &str| {
                named
                    .iter()
                    .find(|entry| entry["name"] == name)
                    .and_then(|entry| entry["template"].as_str())
            };
            let main = find("default").ok_or_else(|| {
                corrupt("must have a template named \"default\"")
            })?;
            let mut sources = vec![(NAME, main.to_owned())];
            sources
                .extend(find(TOOL_NAME).map(|text| (TOOL_NAME, text.into())));
            Ok(sources)
        }
        Some(_) => {
            Err(corrupt("must be a string or a list of {name, template}"))
        }
    }
}

fn argument(name: &str, json: &[u8]) -> Outcome<Json> {
    crate::failure::utf8(json).map_err(|failure| failure.of(name))?;
    serde_json::from_slice(json).map_err(|error| invalid(error).of(name))
}

fn invalid(what: impl std::fmt::Display) -> Failure {
    Failure::new(Code::InvalidArgument, what)
}

/// minijinja's error in one line: where, what.
fn told(error: &minijinja::Error) -> Failure {
    let line =
        error.line().map_or(String::new(), |line| format!("line {line}: "));
    if error.kind() == ErrorKind::OutOfFuel {
        let what = format!("{line}must end within {MAX_STEPS} steps, does not");
        return Failure::new(Code::ResourceExhausted, what);
    }
    let mut what = match (error.kind(), error.detail()) {
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    if let Some(source) = std::error::Error::source(error) {
        what = format!("{what}: {source}");
    }
    Failure::new(Code::InvalidArgument, format!("{line}{what}"))
}

/// A text that refuses to grow beyond MAX_OUTPUT_BYTES.
#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
    full: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > MAX_OUTPUT_BYTES {
            self.full = true;
            return Err(io::Error::from(io::ErrorKind::WriteZero));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
