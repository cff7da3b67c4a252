//! json.dumps, byte for byte as Python writes it: models have learned its
//! spaces.

use std::fmt::Write;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

/// json.dumps' arguments of the same names.
#[derive(Default)]
pub struct Style {
    pub ensure_ascii: bool,
    pub indent: Option<usize>,
    pub separators: Option<[String; 2]>,
    pub sort_keys: bool,
}

/// Deeper nesting is no data that a model was trained on.
const MAX_DEPTH: usize = 200;
const MAX_INDENT: usize = 64;

pub fn dump(value: &Value, style: &Style) -> Result<String, Error> {
    if style.indent.is_some_and(|indent| indent > MAX_INDENT) {
        return Err(bad(format!("indent must be at most {MAX_INDENT}")));
    }
    let comma = if style.indent.is_some() { "," } else { ", " };
    let (comma, colon) = match &style.separators {
        Some([comma, colon]) => (comma.as_str(), colon.as_str()),
        None => (comma, ": "),
    };
    let mut writer = Writer { style, comma, colon, out: String::new() };
    writer.value(value, 0)?;
    Ok(writer.out)
}

fn bad(what: String) -> Error {
    Error::new(ErrorKind::BadSerialization, format!("tojson: {what}"))
}

struct Writer<'a> {
    style: &'a Style,
    comma: &'a str,
    colon: &'a str,
    out: String,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(bad(format!(
                "nesting must be at most {MAX_DEPTH} deep"
            )));
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() {
                "true"
            } else {
                "false"
            }),
            ValueKind::Number => self.out.push_str(&number(value)),
            ValueKind::String => {
                self.string(value.as_str().unwrap_or_default())
            }
            ValueKind::Seq | ValueKind::Iterable => self.list(value, depth)?,
            ValueKind::Map => self.map(value, depth)?,
            kind => {
                return Err(bad(format!("{kind} cannot be written as JSON")))
            }
        }
        Ok(())
    }

    fn list(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.out.push('[');
        let mut empty = true;
        for item in value.try_iter()? {
            self.next_item(depth + 1, empty);
            empty = false;
            self.value(&item, depth + 1)?;
        }
        self.close(']', depth, empty);
        Ok(())
    }

    fn map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut keys: Vec<Value> = value.try_iter()?.collect();
        if self.style.sort_keys {
            keys.sort();
        }
        self.out.push('{');
        for (i, key) in keys.iter().enumerate() {
            self.next_item(depth + 1, i == 0);
            match key.kind() {
                ValueKind::String => {
                    self.string(key.as_str().unwrap_or_default())
                }
                ValueKind::Number | ValueKind::Bool | ValueKind::None => {
                    self.out.push('"');
                    self.value(key, depth)?;
                    self.out.push('"');
                }
                kind => return Err(bad(format!("{kind} cannot be a key"))),
            }
            self.out.push_str(self.colon);
            self.value(&value.get_item(key)?, depth + 1)?;
        }
        self.close('}', depth, keys.is_empty());
        Ok(())
    }

    fn next_item(&mut self, depth: usize, first: bool) {
        if !first {
            self.out.push_str(self.comma);
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
        if let Some(indent) = self.style.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat(' ').take(indent * depth));
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
            // Writing to a String cannot fail.
            let _ = write!(self.out, "\\u{unit:04x}");
        }
    }
}

/// Integers as they are; floats by Python's repr.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    let Ok(float) = f64::try_from(value.clone()) else {
        return value.to_string();
    };
    if float.is_nan() {
        return "NaN".to_owned();
    } else if float.is_infinite() {
        return if float > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) =
        scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent = exponent.parse::<i32>().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = float.to_string();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
