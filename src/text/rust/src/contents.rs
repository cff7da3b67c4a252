//! Whether a template reads a message's content as a text, as a list of parts,
//! or as both: found out by rendering chats with a mark in them.

use std::rc::Rc;

use crate::jinja::{Dict, Limits, Template, Value};
use crate::messages::{adapted, marked, said_texts, with};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Parts,
    /// As it comes.
    Both,
}

/// How the contents of each role are read, as far as it is known.
#[derive(Clone)]
pub struct Contents {
    system: Option<Form>,
    user: Option<Form>,
    assistant: Option<Form>,
    tool: Option<Form>,
}

impl Contents {
    pub fn of(&self, role: &str) -> Option<Form> {
        match side(role) {
            "system" => self.system,
            "assistant" => self.assistant,
            "tool" => self.tool,
            _ => self.user,
        }
    }

    fn set(&mut self, role: &str, form: Form) {
        let known = match role {
            "system" => &mut self.system,
            "assistant" => &mut self.assistant,
            "tool" => &mut self.tool,
            _ => &mut self.user,
        };
        *known = Some(form);
    }
}

/// A chat of three messages takes some 10^3 steps.
const LIMITS: Limits =
    Limits { max_steps: 200_000, max_bytes: 1 << 20, max_depth: 100 };

/// Of one length, with no letter in the same place: whatever a template does
/// with its letters, it writes another text for each.
const MARK: &str = "qjxmark";
const OTHER: &str = "zwvoths";
/// What the other messages of a trial say.
const FILLER: &str = "words";
/// A text of so many bytes stands in a prompt because it was said.
const TELLING_BYTES: usize = 32;
/// A member of a part that no template reads by its name.
const UNREAD: &str = "qjxunread";
/// What stands before a name as Python or JSON write it, also in a URL or HTML.
const QUOTES: [&str; 7] = ["'", "\"", "%27", "%22", "&#39;", "&#34;", "&quot;"];

fn object(members: &[(&str, Value)]) -> Value {
    let members =
        members.iter().map(|(name, value)| (Value::from(*name), value.clone()));
    let dict = Dict::of(members.collect()).unwrap_or_default();
    Value::Dict(Rc::new(dict))
}

pub fn text_part(text: Value) -> Value {
    object(&[("type", Value::from("text")), ("text", text)])
}

fn said(role: &str, content: Value) -> Value {
    object(&[("role", Value::from(role)), ("content", content)])
}

fn as_text(mark: &str) -> Value {
    Value::from(mark)
}

fn as_parts(mark: &str) -> Value {
    Value::list(vec![object(&[
        ("type", Value::from("text")),
        ("text", Value::from(mark)),
        (UNREAD, Value::from("")),
    ])])
}

/// Tries one template. `given`: its variables but the messages.
pub struct Reading<'a> {
    template: &'a Template,
    given: &'a [(&'a str, Value)],
    now_unix_s: i64,
    limits: Limits,
}

/// Conversations, each with this content in it.
type Chats<'a> = &'a dyn Fn(Value) -> Vec<Vec<Value>>;

impl<'a> Reading<'a> {
    pub fn new(template: &'a Template, given: &'a [(&'a str, Value)]) -> Self {
        Reading { template, given, now_unix_s: 0, limits: LIMITS }
    }

    /// Of a client's conversation.
    pub fn asked(self, now_unix_s: i64, limits: Limits) -> Self {
        Reading { now_unix_s, limits, ..self }
    }

    pub fn contents(&self) -> Contents {
        let (user, _) = self.read_form(&|content| {
            vec![
                vec![said("user", content.clone())],
                vec![
                    said("system", Value::from(FILLER)),
                    said("user", content),
                ],
            ]
        });
        let other = match user {
            Some(Form::Parts) => {
                Value::list(vec![text_part(Value::from(FILLER))])
            }
            _ => Value::from(FILLER),
        };
        let called = called(other.clone());
        let (before, after) =
            (said("user", other.clone()), said("user", other));
        let system = self.form(&|content| {
            vec![vec![said("system", content), after.clone()]]
        });
        let assistant = self.form(&|content| {
            let answer = said("assistant", content);
            vec![vec![before.clone(), answer, after.clone()]]
        });
        let tool = self.form(&|content| {
            let answer = object(&[
                ("role", Value::from("tool")),
                ("content", content),
                ("name", Value::from("f")),
                ("tool_call_id", Value::from("call00000")),
            ]);
            vec![vec![before.clone(), called.clone(), answer]]
        });
        Contents { system, user, assistant, tool }
    }

    /// With the forms that `contents` lacks, found by `messages` themselves:
    /// a template may take no others, or only with variables of the request.
    pub fn completed(
        &self,
        contents: &Contents,
        messages: &[Value],
    ) -> Contents {
        let mut known = contents.clone();
        for role in ["user", "system", "assistant", "tool"] {
            let is_said = |message: &Value| side(role_of(message)) == role;
            if known.of(role).is_some() || !messages.iter().any(is_said) {
                continue;
            }
            let form = self.form(&|content| {
                let chat = |other: Form| {
                    let forms = |r: &str| known.of(r).unwrap_or(other);
                    let mut chat = adapted(messages.to_vec(), &forms);
                    for message in chat.iter_mut().filter(|m| is_said(m)) {
                        if let Value::Dict(dict) = &*message {
                            *message = with(dict, "content", content.clone());
                        }
                    }
                    chat
                };
                vec![chat(Form::Text), chat(Form::Parts)]
            });
            if let Some(form) = form {
                known.set(role, form);
            }
        }
        known
    }

    /// None where it takes neither: then the chat is to be asked for.
    fn form(&self, chats: Chats) -> Option<Form> {
        let (form, is_taken) = self.read_form(chats);
        form.or(is_taken.then_some(Form::Text))
    }

    /// The form that it writes, and whether it takes any.
    fn read_form(&self, chats: Chats) -> (Option<Form>, bool) {
        let text = self.reads(chats, &as_text);
        let parts = self.reads(chats, &as_parts);
        let form = match (text == Some(true), parts == Some(true)) {
            (true, true) => Some(Form::Both),
            (false, true) => Some(Form::Parts),
            (true, false) => Some(Form::Text),
            (false, false) => None,
        };
        (form, text.is_some() || parts.is_some())
    }

    /// Whether what it writes depends on the content, and shows no list; none
    /// where it raises.
    fn reads(
        &self,
        chats: Chats,
        content: &dyn Fn(&str) -> Value,
    ) -> Option<bool> {
        let reads = |(chat, other): (Vec<Value>, Vec<Value>)| {
            let text = self.written(chat)?;
            if shows_list(&text) {
                return Some(false);
            }
            Some(self.written(other)? != text)
        };
        let pairs = chats(content(MARK)).into_iter().zip(chats(content(OTHER)));
        let mut found = None;
        for read in pairs.filter_map(reads) {
            if read {
                return Some(true);
            }
            found = Some(false);
        }
        found
    }

    /// Whether the messages say something of which nothing is in `text`, which
    /// it made of them: it makes the same of whatever else they say.
    /// A template that names no contents is meant to write none.
    pub fn loses_all(&self, messages: &[Value], text: &str) -> bool {
        if !self.template.source().contains("content") {
            return false;
        }
        let said = said_texts(messages);
        let is_there = |said: &String| {
            said.len() >= TELLING_BYTES
                && text.contains(said)
                && !self.template.source().contains(said)
        };
        if said.is_empty() || said.iter().any(is_there) {
            return false;
        }
        // Where it raises, it reads them.
        let is_same = |mark: &str| {
            let other = self.written(marked(messages, mark));
            other.is_some_and(|other| other == text)
        };
        is_same(MARK) && is_same(OTHER)
    }

    /// None where the template raises.
    fn written(&self, messages: Vec<Value>) -> Option<String> {
        let mut given = self.given.to_vec();
        given.push(("messages", Value::list(messages)));
        self.template.render(&given, self.now_unix_s, self.limits).ok()
    }
}

/// Whether the list is written as it is, not what its parts say.
fn shows_list(text: &str) -> bool {
    let text = text.to_lowercase();
    text.match_indices(UNREAD)
        .any(|(at, _)| QUOTES.iter().any(|quote| text[..at].ends_with(quote)))
}

/// Of the four that have a form.
fn side(role: &str) -> &str {
    match role {
        "system" | "developer" => "system",
        "assistant" | "tool" => role,
        _ => "user",
    }
}

fn role_of(message: &Value) -> &str {
    let role = match message {
        Value::Dict(message) => message.get_str("role"),
        _ => None,
    };
    role.and_then(Value::as_str).unwrap_or_default()
}

pub fn tool() -> Value {
    let none = object(&[]);
    let parameters =
        object(&[("type", Value::from("object")), ("properties", none)]);
    let function = object(&[
        ("name", Value::from("f")),
        ("description", Value::from("")),
        ("parameters", parameters),
    ]);
    object(&[("type", Value::from("function")), ("function", function)])
}

fn called(content: Value) -> Value {
    let function =
        object(&[("name", Value::from("f")), ("arguments", object(&[]))]);
    let call = object(&[
        ("id", Value::from("call00000")),
        ("type", Value::from("function")),
        ("function", function),
    ]);
    object(&[
        ("role", Value::from("assistant")),
        ("content", content),
        ("tool_calls", Value::list(vec![call])),
    ])
}
