//! json.dumps, byte for byte as Python writes it: models have learned its
//! spaces. The filter tojson is transformers', not jinja2's.

use std::fmt::Write;

use super::arguments::{flag_or, need_int, need_str, Arguments};
use super::compare::sorted;
use super::error::{raise, Outcome};
use super::float_text::float_repr;
use super::items::iterate;
use super::run::Render;
use super::value::Value;

/// json.dumps' arguments of the same names.
struct Style {
    ensure_ascii: bool,
    indent: Option<String>,
    comma: String,
    colon: String,
    sort_keys: bool,
}

/// Deeper nesting is no data that a model was trained on.
const MAX_DEPTH: usize = 1000;
const MAX_INDENT: i128 = 64;

pub fn tojson(
    render: &mut Render,
    value: &Value,
    arguments: Arguments,
) -> Outcome<Value> {
    let [ascii, indent, separators, sort_keys] = arguments.bind(
        "tojson",
        ["ensure_ascii", "indent", "separators", "sort_keys"],
        0,
    )?;
    let indent = match indent {
        None | Some(Value::None) => None,
        Some(Value::Str(text)) => Some(text.as_str().to_owned()),
        Some(number) => {
            let number = need_int(&number)?;
            if number > MAX_INDENT {
                return raise(format!(
                    "tojson: indent must be at most {MAX_INDENT}"
                ));
            }
            Some(" ".repeat(usize::try_from(number).unwrap_or(0)))
        }
    };
    let (comma, colon) = match separators {
        None | Some(Value::None) => {
            let comma = if indent.is_some() { "," } else { ", " };
            (comma.to_owned(), ": ".to_owned())
        }
        Some(pair) => two_texts(render, &pair)?,
    };
    let style = Style {
        ensure_ascii: flag_or(ascii, false),
        indent,
        comma,
        colon,
        sort_keys: flag_or(sort_keys, false),
    };
    let mut writer = Writer { style, out: String::new() };
    writer.value(render, value, 0)?;
    render.room_for(writer.out.len())?;
    Ok(Value::from(writer.out))
}

fn two_texts(render: &mut Render, pair: &Value) -> Outcome<(String, String)> {
    let mut items = iterate(pair)?;
    let mut texts = Vec::new();
    while let Some(item) = items.next(render)? {
        texts.push(need_str(&item)?.to_owned());
    }
    match <[String; 2]>::try_from(texts) {
        Ok([comma, colon]) => Ok((comma, colon)),
        Err(_) => raise("tojson: separators must be two strings"),
    }
}

struct Writer {
    style: Style,
    out: String,
}

impl Writer {
    fn value(
        &mut self,
        render: &mut Render,
        value: &Value,
        depth: usize,
    ) -> Outcome<()> {
        if depth > MAX_DEPTH {
            return raise(format!(
                "tojson: nesting must be at most {MAX_DEPTH} deep"
            ));
        }
        render.step(1)?;
        if self.out.len() > render.limits.max_bytes {
            render.room_for(self.out.len())?;
        }
        match value {
            Value::None => self.out.push_str("null"),
            Value::Bool(true) => self.out.push_str("true"),
            Value::Bool(false) => self.out.push_str("false"),
            Value::Int(number) => {
                // Writing to a String cannot fail.
                let _ = write!(self.out, "{number}");
            }
            Value::Float(number) => self.out.push_str(&float(*number)),
            Value::Str(text) => self.string(text.as_str()),
            Value::List(items) | Value::Tuple(items) | Value::Group(items) => {
                self.out.push('[');
                for (i, item) in items.iter().enumerate() {
                    self.next_item(depth + 1, i == 0);
                    self.value(render, item, depth + 1)?;
                }
                self.close(']', depth, items.is_empty());
            }
            Value::Dict(dict) => {
                self.map(render, dict.entries(), depth)?;
            }
            other => {
                return raise(format!(
                    "Object of type {} is not JSON serializable",
                    other.type_name()
                ))
            }
        }
        Ok(())
    }

    fn map(
        &mut self,
        render: &mut Render,
        entries: &[(Value, Value)],
        depth: usize,
    ) -> Outcome<()> {
        let mut entries: Vec<(Value, Value)> = entries.to_vec();
        if self.style.sort_keys {
            let keyed = entries.into_iter().map(|(key, value)| {
                (key.clone(), Value::tuple(vec![key, value]))
            });
            let pairs = sorted(render, keyed.collect(), false)?;
            entries = pairs
                .iter()
                .filter_map(Value::as_sequence)
                .map(|pair| (pair[0].clone(), pair[1].clone()))
                .collect();
        }
        self.out.push('{');
        for (i, (key, value)) in entries.iter().enumerate() {
            self.next_item(depth + 1, i == 0);
            match key {
                Value::Str(text) => self.string(text.as_str()),
                Value::None
                | Value::Bool(_)
                | Value::Int(_)
                | Value::Float(_) => {
                    self.out.push('"');
                    self.value(render, key, depth)?;
                    self.out.push('"');
                }
                other => {
                    return raise(format!(
                        "keys must be str, int, float, bool or None, not {}",
                        other.type_name()
                    ))
                }
            }
            self.out.push_str(&self.style.colon);
            self.value(render, value, depth + 1)?;
        }
        self.close('}', depth, entries.is_empty());
        Ok(())
    }

    fn next_item(&mut self, depth: usize, first: bool) {
        if !first {
            self.out.push_str(&self.style.comma);
        }
        self.line_break(depth);
    }

    fn close(&mut self, bracket: char, depth: usize, empty: bool) {
        if !empty {
            self.line_break(depth);
        }
        self.out.push(bracket);
    }

    fn line_break(&mut self, depth: usize) {
        if let Some(indent) = &self.style.indent {
            self.out.push('\n');
            for _ in 0..depth {
                self.out.push_str(indent);
            }
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' ' || (self.style.ensure_ascii && c > '\u{7e}') => {
                    self.escape(c)
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    fn escape(&mut self, c: char) {
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(self.out, "\\u{unit:04x}");
        }
    }
}

fn float(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else {
        float_repr(number)
    }
}
