//! A chat's messages as a template reads them, and what it made of them.

use std::rc::Rc;

use crate::contents::{text_part, Form};
use crate::failure::{Code, Failure, Outcome};
use crate::jinja::{Dict, Value};

/// Names of an assistant's thoughts; the first is what most templates read.
const THOUGHTS: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// Behind the text of the message that is continued: where a template puts it,
/// there the message's own end marks begin. The space behind it is lost where
/// the template trims the text.
const END_MARK: &str = "WINNOW_GOES_ON_HERE";

fn dict_of(entries: Vec<(Value, Value)>) -> Value {
    Value::Dict(Rc::new(Dict::of(entries).unwrap_or_default()))
}

pub fn with(message: &Dict, name: &str, value: Value) -> Value {
    let mut entries = message.entries().to_vec();
    match entries.iter_mut().find(|(key, _)| key.as_str() == Some(name)) {
        Some(entry) => entry.1 = value,
        None => entries.push((Value::from(name), value)),
    }
    dict_of(entries)
}

/// As transformers hands them over: without members that are null, thoughts
/// by all their names, and contents in the form that the template reads.
pub fn adapted(
    messages: Vec<Value>,
    form_of: &dyn Fn(&str) -> Form,
) -> Vec<Value> {
    messages
        .into_iter()
        .map(|message| match &message {
            Value::Dict(dict) => adapted_one(dict, form_of),
            _ => message,
        })
        .collect()
}

fn adapted_one(message: &Dict, form_of: &dyn Fn(&str) -> Form) -> Value {
    let role = message.get_str("role").and_then(Value::as_str);
    let form = form_of(role.unwrap_or_default());
    let mut entries: Vec<(Value, Value)> = message
        .entries()
        .iter()
        .filter(|(_, value)| !matches!(value, Value::None))
        .cloned()
        .collect();
    for (name, value) in &mut entries {
        if name.as_str() == Some("content") {
            *value = in_form(value, form);
        }
    }
    let find = |name: &str| {
        let known = |(key, _): &&(Value, Value)| key.as_str() == Some(name);
        entries.iter().find(known).map(|(_, value)| value.clone())
    };
    let thought = THOUGHTS.into_iter().find_map(find);
    let Some(thought) = thought else { return dict_of(entries) };
    if find("thinking").is_none() {
        entries.insert(0, (Value::from("thinking"), thought.clone()));
    }
    let Ok(dict) = Dict::of(entries) else { return Value::None };
    with(&dict, THOUGHTS[0], thought)
}

fn in_form(content: &Value, form: Form) -> Value {
    match (content, form) {
        (Value::Str(_), Form::Parts) => {
            Value::list(vec![text_part(content.clone())])
        }
        (Value::List(parts), Form::Text) => match joined(parts) {
            Some(text) => Value::from(text),
            None => content.clone(),
        },
        _ => content.clone(),
    }
}

/// None where one is no text.
fn joined(parts: &[Value]) -> Option<String> {
    let texts = parts.iter().map(|part| match part {
        Value::Dict(part) => part.get_str("text").and_then(Value::as_str),
        _ => None,
    });
    texts.collect::<Option<Vec<_>>>().map(|texts| texts.concat())
}

fn not_continued<T>(why: &str) -> Outcome<T> {
    Err(Failure::new(Code::NotFound, why))
}

/// With the end of the last one's text marked.
pub fn continued(mut messages: Vec<Value>) -> Outcome<Vec<Value>> {
    const NONE: &str = "the last message has no text";
    let Some(Value::Dict(last)) = messages.pop() else {
        return not_continued(NONE);
    };
    let marked = |text: &str| Value::from(format!("{text}{END_MARK} "));
    let content = match last.get_str("content") {
        Some(Value::Str(text)) => marked(text.as_str()),
        Some(Value::List(parts)) => {
            let mut parts = parts.to_vec();
            let text_of = |part: &Value| match part {
                Value::Dict(part) => part.get_str("text").cloned(),
                _ => None,
            };
            let at = parts.iter().rposition(|part| text_of(part).is_some());
            let Some(at) = at else { return not_continued(NONE) };
            if let (Value::Dict(part), Some(text)) =
                (parts[at].clone(), text_of(&parts[at]))
            {
                let text = text.as_str().unwrap_or_default();
                parts[at] = with(&part, "text", marked(text));
            }
            Value::list(parts)
        }
        _ => return not_continued(NONE),
    };
    messages.push(with(&last, "content", content));
    Ok(messages)
}

/// A text that ends where the message does that is continued.
pub struct Continued;

impl Continued {
    pub fn of(text: &str) -> Outcome<String> {
        let Some(at) = text.rfind(END_MARK) else {
            return not_continued(
                "the template does not write the last message",
            );
        };
        let kept = &text[..at];
        let keeps_blanks = text[at + END_MARK.len()..].starts_with(' ');
        Ok(match keeps_blanks {
            true => kept.to_owned(),
            // What stood before the mark is trimmed as well.
            false => kept.trim_end().to_owned(),
        })
    }
}

/// The texts of the messages, without what END_MARK adds and without blanks.
pub fn said_texts(messages: &[Value]) -> Vec<String> {
    let mut texts = Vec::new();
    let mut add = |text: &Value| {
        let text = text.as_str().unwrap_or_default().replace(END_MARK, "");
        if !text.trim().is_empty() {
            texts.push(text.trim().to_owned());
        }
    };
    for message in messages {
        let Value::Dict(message) = message else { continue };
        match message.get_str("content") {
            Some(Value::List(parts)) => {
                parts.iter().filter_map(part_text).for_each(&mut add)
            }
            Some(content) => add(content),
            None => (),
        }
    }
    texts
}

fn part_text(part: &Value) -> Option<&Value> {
    match part {
        Value::Dict(part) => part.get_str("text"),
        _ => None,
    }
}

/// The same messages with `mark` in place of each text that says something.
pub fn marked(messages: &[Value], mark: &str) -> Vec<Value> {
    let text_marked = |text: &Value| {
        let text = text.as_str()?;
        let at = text.find(END_MARK).unwrap_or(text.len());
        let says = !text[..at].trim().is_empty();
        says.then(|| Value::from(format!("{mark}{}", &text[at..])))
    };
    let part_marked = |part: &Value| match part {
        Value::Dict(dict) => match part_text(part).and_then(text_marked) {
            Some(text) => with(dict, "text", text),
            None => part.clone(),
        },
        _ => part.clone(),
    };
    let one = |message: &Value| {
        let Value::Dict(dict) = message else { return message.clone() };
        let content = match dict.get_str("content") {
            Some(Value::List(parts)) => {
                Some(Value::list(parts.iter().map(part_marked).collect()))
            }
            Some(content) => text_marked(content),
            None => None,
        };
        content.map_or(message.clone(), |text| with(dict, "content", text))
    };
    messages.iter().map(one).collect()
}
