//! Chat templates as Hugging Face transformers renders them.

use std::rc::Rc;

use serde_json::Value as Json;

use crate::config::parse_config;
use crate::contents::{tool, Contents, Form, Reading};
use crate::failure::{fenced, Code, Failure, Outcome};
use crate::jinja::{self, read_json, Kind, Limits, Template, Value};
use crate::messages::{adapted, continued, Continued};
use crate::stack::on_large_stack;
use crate::template_tokens::{special_tokens, SpecialTokens};
use crate::NamedText;

/// A conversation of a thousand messages takes some 10^5 steps. Macros are
/// called no deeper than is useful. A list in a list in a list, built by a
/// loop of so many steps, is freed by recursion too: on_large_stack.
const LIMITS: Limits =
    Limits { max_steps: 10_000_000, max_bytes: 64 << 20, max_depth: 100 };

/// A trial by a client's chat may take so many for each hundred messages: one
/// that takes longer leaves the form a text, and refuses nothing.
const TRIAL_STEPS: u64 = 200_000;

const DEFAULT: &str = "default";
/// Where a checkpoint has another template for chats with tools.
const TOOL_USE: &str = "tool_use";

/// The files of a checkpoint that a chat's text depends on.
#[derive(Default)]
pub struct Files<'a> {
    /// chat_template.jinja, which goes before all templates in `config`.
    pub jinja: Option<NamedText<'a>>,
    /// tokenizer_config.json
    pub config: Option<NamedText<'a>>,
    /// special_tokens_map.json
    pub special_map: Option<NamedText<'a>>,
    /// Each by its name and its file: additional_chat_templates/NAME.jinja.
    pub additional: Vec<(String, NamedText<'a>)>,
}

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
    /// Whether the text ends where the last message's does.
    pub continue_last: bool,
}

/// One of a checkpoint's templates.
struct Named {
    name: String,
    /// Where it came from: what its errors name.
    origin: String,
    compiled: Outcome<Compiled>,
}

struct Compiled {
    template: Template,
    contents: Contents,
}

/// Compiled templates and the special tokens they may name. Threads may share
/// it.
pub struct ChatTemplate {
    templates: Vec<Named>,
    special_tokens: SpecialTokens,
}

/// A template's name, where it came from and its text.
struct Source {
    name: String,
    origin: String,
    text: Outcome<String>,
}

impl ChatTemplate {
    pub fn load(files: &Files) -> Outcome<ChatTemplate> {
        let config = files.config.as_ref().map(parse_config).transpose()?;
        let special_map =
            files.special_map.as_ref().map(parse_config).transpose()?;
        let config = config.unwrap_or(Json::Null);
        let special_tokens = special_tokens(&config, special_map.as_ref());
        let sources = sources(files, &config)?;
        let templates = on_large_stack(|| {
            Ok(sources
                .into_iter()
                .map(|source| compile(source, &special_tokens))
                .collect())
        })?;
        let loaded = ChatTemplate { templates, special_tokens };
        match loaded.named(DEFAULT).map(|named| &named.compiled) {
            Some(Err(failure)) => Err(failure.clone()),
            _ => Ok(loaded),
        }
    }

    /// A line for each template that cannot be used, and for a default that is
    /// not there.
    pub fn complaints(&self) -> String {
        let mut lines: Vec<String> = self
            .templates
            .iter()
            .filter_map(|named| {
                let failure = named.compiled.as_ref().err()?;
                let Failure { message, .. } = failure;
                Some(format!("{}; chats cannot use it\n", message))
            })
            .collect();
        if self.named(DEFAULT).is_none() {
            lines.push(format!(
                "no chat template named {DEFAULT:?}: each chat must name one \
                 of {} (chat_template_kwargs: chat_template)\n",
                self.names()
            ));
        }
        lines.concat()
    }

    fn names(&self) -> String {
        let names: Vec<String> = self
            .templates
            .iter()
            .filter(|named| named.compiled.is_ok())
            .map(|named| format!("{:?}", named.name))
            .collect();
        names.join(", ")
    }

    /// The source of the template that renders chats with tools.
    pub fn tool_source(&self) -> String {
        [TOOL_USE, DEFAULT]
            .into_iter()
            .find_map(|name| self.named(name)?.compiled.as_ref().ok())
            .map_or(String::new(), |found| found.template.source().to_owned())
    }

    fn named(&self, name: &str) -> Option<&Named> {
        self.templates.iter().find(|named| named.name == name)
    }

    pub fn render(&self, input: &Input) -> Outcome<String> {
        let messages = text_of("messages", input.messages)?;
        let extra = text_of("extra", input.extra.unwrap_or(b"{}"))?;
        on_large_stack(|| {
            let read = |name: &str, text| {
                read_json(text)
                    .map_err(|error| invalid(error.message()).of(name))
            };
            let Value::List(messages) = read("messages", messages)? else {
                return Err(invalid("messages: must be a JSON array"));
            };
            let Value::Dict(extra) = read("extra", extra)? else {
                return Err(invalid("extra: must be a JSON object"));
            };
            let named = self.chosen(&extra)?;
            let compiled = named.compiled.as_ref().map_err(Clone::clone)?;
            self.render_compiled(compiled, &messages, &extra, input).map_err(
                |failure| match failure.code {
                    Code::NotFound => failure,
                    _ => failure.of(&named.origin),
                },
            )
        })
    }

    /// The one that is asked for, or that is meant for a chat with tools.
    fn chosen(&self, extra: &jinja::Dict) -> Outcome<&Named> {
        let asked = extra.get_str("chat_template").and_then(Value::as_str);
        if let Some(name) = asked {
            return self.named(name).ok_or_else(|| {
                invalid(format!(
                    "chat_template must be a template's name, one of {}, is \
                     {name:?}",
                    self.names()
                ))
            });
        }
        let with_tools = extra
            .get_str("tools")
            .is_some_and(|tools| !matches!(tools, Value::None));
        let tool_use = with_tools.then(|| self.named(TOOL_USE)).flatten();
        tool_use.or_else(|| self.named(DEFAULT)).ok_or_else(|| {
            Failure::new(
                Code::InvalidArgument,
                format!(
                    "has no template named {DEFAULT:?}: chat_template must be \
                     the name of one"
                ),
            )
        })
    }

    fn render_compiled(
        &self,
        compiled: &Compiled,
        messages: &[Value],
        extra: &jinja::Dict,
        input: &Input,
    ) -> Outcome<String> {
        let Compiled { template, contents } = compiled;
        let mut messages = messages.to_vec();
        if input.continue_last {
            messages = continued(messages)?;
        }
        let given = self.variables(extra, input);
        let limits = Limits {
            max_steps: TRIAL_STEPS * (1 + messages.len() as u64 / 100),
            ..LIMITS
        };
        let reading =
            Reading::new(template, &given).asked(input.now_unix_s, limits);
        let contents = reading.completed(contents, &messages);
        let form_of = |role: &str| contents.of(role).unwrap_or(Form::Text);
        let messages = adapted(messages, &form_of);
        let mut all = given.clone();
        all.push(("messages", Value::List(Rc::new(messages.clone()))));
        let written = template
            .render(&all, input.now_unix_s, LIMITS)
            .map_err(|error| told(&error))?;
        let text = match input.continue_last {
            true => Continued::of(&written)?,
            false => written.clone(),
        };
        if reading.loses_all(&messages, &written) {
            return Err(invalid(
                "the text has nothing of what the messages say: the template \
                 reads contents of another form; give messages contents that \
                 it reads, or the server another template (--chat-template)",
            ));
        }
        Ok(text)
    }

    /// All but the messages.
    fn variables<'a>(
        &'a self,
        extra: &'a jinja::Dict,
        input: &Input,
    ) -> Vec<(&'a str, Value)> {
        let mut given = standard(&self.special_tokens, Value::None);
        for (name, value) in &mut given {
            if *name == "add_generation_prompt" {
                *value = Value::from(input.add_generation_prompt);
            }
        }
        for (name, value) in extra.entries() {
            let name = name.as_str().unwrap_or_default();
            if !matches!(name, "messages" | "strftime_now" | "chat_template") {
                given.push((name, value.clone()));
            }
        }
        given
    }
}

/// The variables that every template has.
fn standard(tokens: &SpecialTokens, tools: Value) -> Vec<(&str, Value)> {
    let mut given = vec![
        ("tools", tools),
        ("documents", Value::None),
        ("add_generation_prompt", Value::from(true)),
    ];
    for (name, token) in tokens {
        given.push((name, Value::text(token)));
    }
    given
}

fn compile(source: Source, tokens: &SpecialTokens) -> Named {
    let Source { name, origin, text } = source;
    let tools = match name == TOOL_USE {
        true => Value::list(vec![tool()]),
        false => Value::None,
    };
    let compiled = text.and_then(|text| {
        fenced(|| {
            let template =
                Template::parse(&text).map_err(|error| told(&error))?;
            let given = standard(tokens, tools);
            let contents = Reading::new(&template, &given).contents();
            Ok(Compiled { template, contents })
        })
    });
    let compiled = compiled.map_err(|failure| failure.of(&origin));
    Named { name, origin, compiled }
}

/// As transformers 5: additional_chat_templates/default.jinja goes before
/// chat_template.jinja, and files before the templates in the config, all of
/// them where one is the default's.
fn sources(files: &Files, config: &Json) -> Outcome<Vec<Source>> {
    let mut sources = Vec::new();
    let mut of_file = |name: &str, file: &NamedText| {
        let text = crate::failure::utf8(file.text).map(str::to_owned);
        add(
            &mut sources,
            Source { name: name.to_owned(), origin: file.name.clone(), text },
        );
    };
    if let Some(jinja) = &files.jinja {
        of_file(DEFAULT, jinja);
    }
    for (name, file) in &files.additional {
        of_file(name, file);
    }
    if sources.iter().any(|source| source.name == DEFAULT) {
        return Ok(sources);
    }
    let others = match &files.config {
        None => Vec::new(),
        Some(file) => {
            let origin = format!("{}: chat_template", file.name);
            config_sources(config, &origin).map_err(|f| f.of(&origin))?
        }
    };
    let has_files = !sources.is_empty();
    for other in others {
        if !has_files || other.name == DEFAULT {
            add(&mut sources, other);
        }
    }
    match sources.is_empty() {
        true => Err(Failure::new(Code::NotFound, "no chat template")),
        false => Ok(sources),
    }
}

/// A later one goes before an earlier one of its name.
fn add(sources: &mut Vec<Source>, source: Source) {
    match sources.iter_mut().find(|known| known.name == source.name) {
        Some(known) => *known = source,
        None => sources.push(source),
    }
}

/// "chat_template": a string, a list of {"name", "template"}, or an object of
/// templates by their names. None where it is not there.
fn config_sources(config: &Json, origin: &str) -> Outcome<Vec<Source>> {
    const WANTED: &str = "must be a string, a list of {name, template}, or an \
                          object of templates by name";
    let corrupt = |what: &str| Failure::new(Code::Corrupt, what);
    let source = |name: &str, text: Option<&Json>| Source {
        name: name.to_owned(),
        origin: origin.to_owned(),
        text: text.and_then(Json::as_str).map(str::to_owned).ok_or_else(|| {
            corrupt(&format!("template {name:?} must be a string"))
        }),
    };
    match config.get("chat_template") {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(text @ Json::String(_)) => Ok(vec![source(DEFAULT, Some(text))]),
        Some(Json::Array(named)) => named
            .iter()
            .map(|entry| match entry.get("name").and_then(Json::as_str) {
                Some(name) => Ok(source(name, entry.get("template"))),
                None => Err(corrupt(WANTED)),
            })
            .collect(),
        Some(Json::Object(named)) => Ok(named
            .iter()
            .map(|(name, text)| source(name, Some(text)))
            .collect()),
        Some(_) => Err(corrupt(WANTED)),
    }
}

fn text_of<'a>(name: &str, json: &'a [u8]) -> Outcome<&'a str> {
    crate::failure::utf8(json).map_err(|failure| failure.of(name))
}

fn invalid(what: impl std::fmt::Display) -> Failure {
    Failure::new(Code::InvalidArgument, what)
}

/// A template's error in one line: where, what.
fn told(error: &jinja::Error) -> Failure {
    let code = match error.kind() {
        Kind::Steps | Kind::Size => Code::ResourceExhausted,
        Kind::Syntax | Kind::Raised => Code::InvalidArgument,
    };
    let line =
        error.line().map_or(String::new(), |line| format!("line {line}: "));
    let syntax = match error.kind() {
        Kind::Syntax => "syntax error: ",
        _ => "",
    };
    Failure::new(code, format!("{line}{syntax}{}", error.message()))
}
