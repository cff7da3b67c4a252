//! str.format

use super::arguments::Arguments;
use super::error::{raise, Outcome};
use super::format_spec::formatted;
use super::run::Render;
use super::text_filters::escaped;
use super::value::{Text, Value};

pub fn format(
    render: &mut Render,
    text: &Text,
    arguments: Arguments,
) -> Outcome<Value> {
    let Arguments { positional, named } = arguments;
    let find = move |name: &str| {
        let found = named.iter().find(|(known, _)| **known == *name);
        found.map(|(_, value)| value.clone())
    };
    let mut formatter =
        Formatter { safe: text.safe, positional, find: &find, next: Some(0) };
    let made = formatter.all(render, text.as_str(), 2)?;
    Ok(Value::Str(Text::new(&made, text.safe)))
}

pub fn format_map(
    render: &mut Render,
    text: &Text,
    arguments: Arguments,
) -> Outcome<Value> {
    let [map] = arguments.only::<1>("format_map", 1)?;
    let map = map.unwrap_or(Value::None);
    let find = |name: &str| match &map {
        Value::Dict(dict) => dict.get_str(name).cloned(),
        _ => None,
    };
    let mut formatter = Formatter {
        safe: text.safe,
        positional: Vec::new(),
        find: &find,
        next: Some(0),
    };
    let made = formatter.all(render, text.as_str(), 2)?;
    Ok(Value::Str(Text::new(&made, text.safe)))
}

struct Formatter<'a> {
    safe: bool,
    positional: Vec<Value>,
    find: &'a dyn Fn(&str) -> Option<Value>,
    /// Of what "{}" takes; None once a field had a number.
    next: Option<usize>,
}

impl Formatter<'_> {
    fn all(
        &mut self,
        render: &mut Render,
        text: &str,
        depth: usize,
    ) -> Outcome<String> {
        if depth == 0 {
            return raise("Max string recursion exceeded");
        }
        let (mut out, mut rest) = (String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            out.push_str(&rest[..at]);
            let mark = &rest[at..at + 1];
            rest = &rest[at + 1..];
            if rest.starts_with(mark) {
                out.push_str(mark);
                rest = &rest[1..];
            } else if mark == "}" {
                return raise("Single '}' encountered in format string");
            } else {
                let Some(end) = field_end(rest) else {
                    return raise("expected '}' before end of string");
                };
                out.push_str(&self.field(render, &rest[..end], depth)?);
                rest = &rest[end + 1..];
            }
            render.room_for(out.len())?;
        }
        out.push_str(rest);
        Ok(out)
    }

    fn field(
        &mut self,
        render: &mut Render,
        field: &str,
        depth: usize,
    ) -> Outcome<String> {
        let inside = field.find('[').map_or(field, |at| &field[..at]);
        let head_end = match inside.find([':', '!']) {
            Some(at) => at,
            None => {
                let from = field.rfind(']').unwrap_or(0);
                field[from..]
                    .find([':', '!'])
                    .map_or(field.len(), |at| from + at)
            }
        };
        let (name, rest) = field.split_at(head_end);
        let (conversion, spec) = match rest.strip_prefix('!') {
            Some(rest) => {
                let (kind, spec) = rest.split_at(rest.len().min(1));
                (kind, spec)
            }
            None => ("", rest),
        };
        let spec = match spec.strip_prefix(':') {
            Some(spec) => self.all(render, spec, depth - 1)?,
            None if spec.is_empty() => String::new(),
            None => return raise("expected ':' after conversion specifier"),
        };
        let value = self.value(render, name)?;
        let value = match conversion {
            "" => value,
            "s" => Value::from(render.str_of(&value)?),
            "r" | "a" => Value::from(render.repr_of(&value)?),
            other => {
                return raise(format!("Unknown conversion specifier '{other}'"))
            }
        };
        let made = formatted(render, &value, &spec)?;
        let is_safe = matches!(&value, Value::Str(text) if text.safe);
        Ok(if self.safe && !is_safe { escaped(&made) } else { made })
    }

    /// "name.attribute[index]"
    fn value(&mut self, render: &mut Render, path: &str) -> Outcome<Value> {
        let head = path.find(['.', '[']).unwrap_or(path.len());
        let (name, mut rest) = path.split_at(head);
        let mut value = self.first(name)?;
        while !rest.is_empty() {
            if let Some(member) = rest.strip_prefix('.') {
                let end = member.find(['.', '[']).unwrap_or(member.len());
                value = render.attribute(&value, &member[..end])?;
                rest = &member[end..];
            } else {
                let inner = &rest[1..];
                let Some(end) = inner.find(']') else {
                    return raise("Missing ']' in format string");
                };
                let index = &inner[..end];
                let index = match index.parse::<i128>() {
                    Ok(number) => Value::Int(number),
                    Err(_) => Value::from(index),
                };
                value = render.item(&value, &index)?;
                rest = &inner[end + 1..];
            }
        }
        Ok(value)
    }

    fn first(&mut self, name: &str) -> Outcome<Value> {
        let at = if name.is_empty() {
            let Some(at) = self.next else {
                return raise(
                    "cannot switch from manual field specification to \
                     automatic field numbering",
                );
            };
            self.next = Some(at + 1);
            at
        } else if let Ok(at) = name.parse::<usize>() {
            if self.next.is_some_and(|next| next > 0) {
                return raise(
                    "cannot switch from automatic field numbering to manual \
                     field specification",
                );
            }
            self.next = None;
            at
        } else {
            return match (self.find)(name) {
                Some(value) => Ok(value),
                None => raise(format!("'{name}'")),
            };
        };
        match self.positional.get(at) {
            Some(value) => Ok(value.clone()),
            None => raise(
                "Replacement index out of range for positional args tuple",
            ),
        }
    }
}

/// The "}" of a field, past those of fields inside it.
fn field_end(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => (),
        }
    }
    None
}
