//! str(value) and repr(value)

use std::fmt::Write;

use super::compare::{too_deep, MAX_DEPTH};
use super::error::Outcome;
use super::float_text::float_repr;
use super::run::Render;
use super::str_kinds::is_printable;
use super::value::Value;

impl Render {
    pub fn str_of(&mut self, value: &Value) -> Outcome<String> {
        Ok(match value {
            Value::Undefined(_) => String::new(),
            Value::Str(text) => text.as_str().to_owned(),
            _ => self.repr_of(value)?,
        })
    }

    pub fn repr_of(&mut self, value: &Value) -> Outcome<String> {
        let mut out = String::new();
        self.write_repr(value, &mut out, 0)?;
        Ok(out)
    }

    fn write_repr(
        &mut self,
        value: &Value,
        out: &mut String,
        depth: usize,
    ) -> Outcome<()> {
        if depth > MAX_DEPTH {
            return too_deep();
        }
        self.step(1)?;
        if out.len() > self.limits.max_bytes {
            self.room_for(out.len())?;
        }
        match value {
            Value::Undefined(_) => out.push_str("Undefined"),
            Value::None => out.push_str("None"),
            Value::Bool(true) => out.push_str("True"),
            Value::Bool(false) => out.push_str("False"),
            Value::Int(number) => {
                // Writing to a String cannot fail.
                let _ = write!(out, "{number}");
            }
            Value::Float(number) => out.push_str(&float_repr(*number)),
            Value::Str(text) if text.safe => {
                out.push_str("Markup(");
                write_quoted(text.as_str(), out);
                out.push(')');
            }
            Value::Str(text) => write_quoted(text.as_str(), out),
            Value::List(items) => {
                out.push('[');
                self.write_all(items, out, depth)?;
                out.push(']');
            }
            Value::Tuple(items) | Value::Group(items) => {
                out.push('(');
                self.write_all(items, out, depth)?;
                out.push_str(if items.len() == 1 { ",)" } else { ")" });
            }
            Value::Dict(dict) => {
                out.push('{');
                for (i, (key, value)) in dict.entries().iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    self.write_repr(key, out, depth + 1)?;
                    out.push_str(": ");
                    self.write_repr(value, out, depth + 1)?;
                }
                out.push('}');
            }
            Value::View(_, view) => {
                let items = self.listed(value)?;
                out.push_str(view.name());
                out.push_str("([");
                self.write_all(&items, out, depth)?;
                out.push_str("])");
            }
            Value::Range(range) => {
                let _ = match range.step {
                    1 => write!(out, "range({}, {})", range.start, range.stop),
                    step => write!(
                        out,
                        "range({}, {}, {step})",
                        range.start, range.stop
                    ),
                };
            }
            Value::Namespace(dict) => {
                out.push_str("<Namespace ");
                let entries = dict.borrow().entries().to_vec();
                let dict = super::dict::Dict::of(entries)?;
                let dict = Value::Dict(std::rc::Rc::new(dict));
                self.write_repr(&dict, out, depth + 1)?;
                out.push('>');
            }
            Value::Macro(defined) => match &defined.node.name {
                None => out.push_str("<Macro anonymous>"),
                Some(name) => {
                    let _ = write!(out, "<Macro '{name}'>");
                }
            },
            Value::Loop(state) => {
                let length = state.length(self)?;
                let _ = write!(out, "<LoopContext {}/{length}>", state.index());
            }
            other => {
                let _ = write!(out, "<{} object>", other.type_name());
            }
        }
        Ok(())
    }

    fn write_all(
        &mut self,
        items: &[Value],
        out: &mut String,
        depth: usize,
    ) -> Outcome<()> {
        for (i, item) in items.iter().enumerate() {
            out.push_str(if i > 0 { ", " } else { "" });
            self.write_repr(item, out, depth + 1)?;
        }
        Ok(())
    }
}

/// As repr(str) quotes.
pub fn write_quoted(text: &str, out: &mut String) {
    let quote =
        if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        let code = u32::from(c);
        let _ = match c {
            '\\' => write!(out, "\\\\"),
            '\n' => write!(out, "\\n"),
            '\r' => write!(out, "\\r"),
            '\t' => write!(out, "\\t"),
            c if c == quote => write!(out, "\\{c}"),
            c if is_printable(c) => {
                out.push(c);
                Ok(())
            }
            _ if code < 0x100 => write!(out, "\\x{code:02x}"),
            _ if code < 0x10000 => write!(out, "\\u{code:04x}"),
            _ => write!(out, "\\U{code:08x}"),
        };
    }
    out.push(quote);
}
