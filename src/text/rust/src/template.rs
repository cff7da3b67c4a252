//! Chat templates as Hugging Face transformers renders them.

use std::rc::Rc;

use serde_json::Value as Json;

use crate::config::parse_config;
use crate::contents::{Contents, Reading};
use crate::failure::{Code, Failure, Outcome};
use crate::jinja::{self, read_json, Kind, Limits, Template, Value};
use crate::messages::{adapted, continued, says_nothing, Continued};
use crate::stack::on_large_stack;
use crate::template_tokens::{special_tokens, SpecialTokens};
use crate::NamedText;

/// A conversation of a thousand messages takes some 10^5 steps. Macros are
/// called no deeper than is useful. A list in a list in a list, built by a
/// loop of so many steps, is freed by recursion too: on_large_stack.
const LIMITS: Limits =
    Limits { max_steps: 10_000_000, max_bytes: 64 << 20, max_depth: 100 };

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
    text: String,
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
            sources
                .into_iter()
                .map(|source| compile(source, &special_tokens))
                .collect()
        })?;
        Ok(ChatTemplate { templates, special_tokens })
    }

    /// The source of the template that renders chats with tools.
    pub fn tool_source(&self) -> String {
        [TOOL_USE, DEFAULT]
            .into_iter()
            .find_map(|name| self.named(name))
            .map_or(String::new(), |named| named.template.source().to_owned())
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
            self.render_named(named, &messages, &extra, input).map_err(
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
                let names: Vec<String> = self
                    .templates
                    .iter()
                    .map(|named| format!("{:?}", named.name))
                    .collect();
                invalid(format!(
                    "chat_template must be a template's name, one of {}, is \
                     {name:?}",
                    names.join(", ")
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

    fn render_named(
        &self,
        named: &Named,
        messages: &[Value],
        extra: &jinja::Dict,
        input: &Input,
    ) -> Outcome<String> {
        let mut messages = messages.to_vec();
        if input.continue_last {
            messages = continued(messages)?;
        }
        let messages = adapted(messages, &named.contents);
        let mut given = vec![
            ("tools", Value::None),
            ("documents", Value::None),
            ("add_generation_prompt", Value::from(input.add_generation_prompt)),
        ];
        for (name, token) in &self.special_tokens {
            given.push((name, Value::text(token)));
        }
        for (name, value) in extra.entries() {
            let name = name.as_str().unwrap_or_default();
            if !matches!(name, "messages" | "strftime_now" | "chat_template") {
                given.push((name, value.clone()));
            }
        }
        given.push(("messages", Value::List(Rc::new(messages.clone()))));
        let text = named
            .template
            .render(&given, input.now_unix_s, LIMITS)
            .map_err(|error| told(&error))?;
        let text = match input.continue_last {
            true => Continued::of(&text)?,
            false => text,
        };
        if says_nothing(named.template.source(), &messages, &text) {
            return Err(invalid(
                "the text has nothing of what the messages say: the template \
                 reads contents of another form; give messages contents that \
                 it reads, or the server another template (--chat-template)",
            ));
        }
        Ok(text)
    }
}

fn compile(source: Source, tokens: &SpecialTokens) -> Outcome<Named> {
    let Source { name, origin, text } = source;
    let template =
        Template::parse(&text).map_err(|error| told(&error).of(&origin))?;
    let reading = Reading::new(&template, tokens, name == TOOL_USE);
    let contents = reading.contents();
    Ok(Named { name, origin, template, contents })
}

/// As transformers 5: files go before the templates in the config, all of them
/// where one is the default's.
fn sources(files: &Files, config: &Json) -> Outcome<Vec<Source>> {
    let mut sources = Vec::new();
    let mut of_file = |name: &str, file: &NamedText| {
        let text =
            crate::failure::utf8(file.text).map_err(|f| f.of(&file.name))?;
        sources.push(Source {
            name: name.to_owned(),
            origin: file.name.clone(),
            text: text.to_owned(),
        });
        Ok(())
    };
    if let Some(jinja) = &files.jinja {
        of_file(DEFAULT, jinja)?;
    }
    for (name, file) in &files.additional {
        of_file(name, file)?;
    }
    if sources.iter().any(|source| source.name == DEFAULT) {
        return Ok(sources);
    }
    let none = || Failure::new(Code::NotFound, "no chat template");
    let found = match &files.config {
        None => Err(none()),
        Some(file) => {
            let origin = format!("{}: chat_template", file.name);
            config_sources(config, &origin).map_err(|f| f.of(&origin))
        }
    };
    match found {
        Ok(others) => {
            let is_new =
                |other: &Source| sources.is_empty() || other.name == DEFAULT;
            let others: Vec<Source> =
                others.into_iter().filter(is_new).collect();
            sources.extend(others);
            Ok(sources)
        }
        Err(failure) if failure.code == Code::NotFound => {
            match sources.is_empty() {
                true => Err(failure),
                false => Ok(sources),
            }
        }
        Err(failure) => Err(failure),
    }
}

/// "chat_template": a string, or a list of {"name", "template"}.
fn config_sources(config: &Json, origin: &str) -> Outcome<Vec<Source>> {
    let corrupt = |what: &str| Failure::new(Code::Corrupt, what);
    const WANTED: &str = "must be a string or a list of {name, template}";
    let source = |name: &str, text: &str| Source {
        name: name.to_owned(),
        origin: origin.to_owned(),
        text: text.to_owned(),
    };
    match config.get("chat_template") {
        None | Some(Json::Null) => {
            Err(Failure::new(Code::NotFound, "not there"))
        }
        Some(Json::String(text)) => Ok(vec![source(DEFAULT, text)]),
        Some(Json::Array(named)) => {
            let mut sources = Vec::new();
            for entry in named {
                let text = entry["template"].as_str();
                match (entry["name"].as_str(), text) {
                    (Some(name), Some(text)) => {
                        sources.push(source(name, text))
                    }
                    (Some(_), None) => (),
                    _ => return Err(corrupt(WANTED)),
                }
            }
            if sources.iter().all(|source| source.name != DEFAULT) {
                return Err(corrupt("must have a template named \"default\""));
            }
            Ok(sources)
        }
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
