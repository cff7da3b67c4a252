//! Whether a template reads a message's content as a text, as a list of parts,
//! or as both: found out by rendering chats with a mark in them.

use std::rc::Rc;

use crate::jinja::{Dict, Limits, Template, Value};
use crate::template_tokens::SpecialTokens;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Parts,
    /// As it comes.
    Both,
}

/// How the contents of each role are read.
pub struct Contents {
    system: Form,
    user: Form,
    assistant: Form,
    tool: Form,
}

impl Contents {
    pub fn of(&self, role: &str) -> Form {
        match role {
            "system" | "developer" => self.system,
            "assistant" => self.assistant,
            "tool" => self.tool,
            _ => self.user,
        }
    }
}

/// A chat of three messages takes some 10^3 steps.
const LIMITS: Limits =
    Limits { max_steps: 200_000, max_bytes: 1 << 20, max_depth: 100 };

/// No template has these words, nor changes them.
const MARK: &str = "qjxmark";
const OTHER: &str = "qjxother";

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

/// Tries one template.
pub struct Reading<'a> {
    template: &'a Template,
    tokens: &'a SpecialTokens,
    with_tools: bool,
}

impl Reading<'_> {
    pub fn new<'a>(
        template: &'a Template,
        tokens: &'a SpecialTokens,
        with_tools: bool,
    ) -> Reading<'a> {
        Reading { template, tokens, with_tools }
    }

    pub fn contents(&self) -> Contents {
        let user = self.form(&|content| {
            vec![
                vec![said("user", content.clone())],
                vec![said("system", Value::from(OTHER)), said("user", content)],
            ]
        });
        let other = match user {
            Form::Parts => Value::list(vec![text_part(Value::from(OTHER))]),
            _ => Value::from(OTHER),
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

    fn form(&self, chats: &dyn Fn(Value) -> Vec<Vec<Value>>) -> Form {
        let text = self.written(&chats, Value::from(MARK));
        let parts = vec![text_part(Value::from(MARK))];
        let parts = self.written(&chats, Value::list(parts));
        let holds = |text: &Option<String>| {
            text.as_ref().is_some_and(|text| text.contains(MARK))
        };
        // Shown as a list is: not what was said.
        let quotes = |text: &Option<String>| {
            text.as_ref().map_or(0, |text| {
                text.matches("'text'").count()
                    + text.matches("\"text\"").count()
            })
        };
        let reads_parts = holds(&parts) && quotes(&parts) <= quotes(&text);
        match (holds(&text), reads_parts) {
            (true, true) => Form::Both,
            (false, true) => Form::Parts,
            _ => Form::Text,
        }
    }

    /// The first of the chats that the template takes.
    fn written(
        &self,
        chats: &dyn Fn(Value) -> Vec<Vec<Value>>,
        content: Value,
    ) -> Option<String> {
        chats(content).into_iter().find_map(|chat| self.render(chat))
    }

    fn render(&self, messages: Vec<Value>) -> Option<String> {
        let tools = match self.with_tools {
            true => Value::list(vec![tool()]),
            false => Value::None,
        };
        let mut given = vec![
            ("tools", tools),
            ("documents", Value::None),
            ("add_generation_prompt", Value::from(true)),
        ];
        for (name, token) in self.tokens {
            given.push((name, Value::text(token)));
        }
        given.push(("messages", Value::list(messages)));
        self.template.render(&given, 0, LIMITS).ok()
    }
}

fn tool() -> Value {
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
