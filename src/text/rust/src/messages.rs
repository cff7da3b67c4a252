//! A chat's messages as a template reads them, and what it made of them.

use std::rc::Rc;

use crate::contents::{text_part, Contents, Form};
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

fn with(message: &Dict, name: &str, value: Value) -> Value {
    let mut entries = message.entries().to_vec();
    match entries.iter_mut().find(|(key, _)| key.as_str() == Some(name)) {
        Some(entry) => entry.1 = value,
        None => entries.push((Value::from(name), value)),
    }
    dict_of(entries)
}

/// As transformers hands them over: without members that are null, thoughts
/// by all their names, and contents in the form that the template reads.
pub fn adapted(messages: Vec<Value>, contents: &Contents) -> Vec<Value> {
    messages
        .into_iter()
        .map(|message| match &message {
            Value::Dict(dict) => adapted_one(dict, contents),
            _ => message,
        })
        .collect()
}

fn adapted_one(message: &Dict, contents: &Contents) -> Value {
    let role = message.get_str("role").and_then(Value::as_str);
    let form = contents.of(role.unwrap_or_default());
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

/// Whether messages say something, the template reads contents, and nothing of
/// them is in what it wrote.
pub fn says_nothing(source: &str, messages: &[Value], text: &str) -> bool {
    if !source.contains("content") {
        return false;
    }
    let text = text.to_lowercase();
    let mut any = false;
    for message in messages {
        let Value::Dict(message) = message else { continue };
        let content = match message.get_str("content") {
            Some(Value::Str(text)) => text.as_str().to_owned(),
            Some(Value::List(parts)) => joined(parts).unwrap_or_default(),
            _ => continue,
        };
        for word in telling_words(&content.replace(END_MARK, "")) {
            any = true;
            if text.contains(&word) || text.contains(&escaped(&word)) {
                return false;
            }
        }
    }
    any
}

/// The first, the longest and the last.
fn telling_words(content: &str) -> Vec<String> {
    let words = || {
        content
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
    };
    let longest = words().max_by_key(|word| word.len());
    let told = [words().next(), longest, words().last()];
    told.into_iter().flatten().map(str::to_lowercase).collect()
}

/// As JSON of ASCII alone has it.
fn escaped(word: &str) -> String {
    let mut out = String::new();
    for c in word.chars() {
        if c.is_ascii() {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}
