//! text % values

use super::arithmetic::as_float;
use super::error::{raise, Outcome};
use super::format_spec::{float_digits, Spec, MAX_WIDTH};
use super::run::Render;
use super::text_filters::escaped;
use super::value::{Text, Value};

pub fn format(
    render: &mut Render,
    text: &Text,
    values: &Value,
) -> Outcome<String> {
    let (list, is_tuple) = match values {
        Value::Tuple(items) | Value::Group(items) => (items.to_vec(), true),
        other => (vec![other.clone()], false),
    };
    let mut formatter = Formatter { safe: text.safe, list, at: 0, map: values };
    let (made, by_name) = formatter.all(render, text.as_str())?;
    let is_map = matches!(
        values,
        Value::Dict(_) | Value::List(_) | Value::Range(_) | Value::Undefined(_)
    );
    let left = formatter.at < formatter.list.len();
    if left && !by_name && (is_tuple || !is_map) {
        return raise("not all arguments converted during string formatting");
    }
    Ok(made)
}

struct Formatter<'a> {
    safe: bool,
    list: Vec<Value>,
    at: usize,
    map: &'a Value,
}

impl Formatter<'_> {
    fn all(
        &mut self,
        render: &mut Render,
        text: &str,
    ) -> Outcome<(String, bool)> {
        let (mut out, mut rest) = (String::new(), text);
        let mut by_name = false;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(more) = rest.strip_prefix('%') {
                out.push('%');
                rest = more;
                continue;
            }
            let mut named = None;
            if let Some(inner) = rest.strip_prefix('(') {
                let Some(end) = inner.find(')') else {
                    return raise("incomplete format key");
                };
                let Value::Dict(dict) = self.map else {
                    return raise("format requires a mapping");
                };
                let name = &inner[..end];
                let Some(value) = dict.get_str(name) else {
                    return raise(format!("'{name}'"));
                };
                (named, by_name) = (Some(value.clone()), true);
                rest = &inner[end + 1..];
            }
            let spec = self.spec(&mut rest)?;
            let Some(kind) = rest.chars().next() else {
                return raise("incomplete format");
            };
            rest = &rest[kind.len_utf8()..];
            if kind == '%' {
                out.push('%');
                continue;
            }
            let value = match named {
                Some(value) => value,
                None => self.next()?,
            };
            out.push_str(&self.one(render, &spec, kind, &value)?);
            render.room_for(out.len())?;
        }
        out.push_str(rest);
        Ok((out, by_name))
    }

    fn next(&mut self) -> Outcome<Value> {
        match self.list.get(self.at) {
            Some(value) => {
                self.at += 1;
                Ok(value.clone())
            }
            None => raise("not enough arguments for format string"),
        }
    }

    fn spec(&mut self, rest: &mut &str) -> Outcome<Spec> {
        let mut spec = Spec::default();
        while let Some(flag) = rest.chars().next() {
            match flag {
                '-' => spec.align = Some('<'),
                '+' => spec.sign = Some('+'),
                ' ' if spec.sign.is_none() => spec.sign = Some(' '),
                ' ' => (),
                '#' => spec.alternate = true,
                '0' => spec.zeros = true,
                _ => break,
            }
            *rest = &rest[1..];
        }
        if let Some(width) = self.number(rest)? {
            if width < 0 {
                spec.align = Some('<');
            }
            spec.width = width.unsigned_abs() as usize;
        }
        if let Some(more) = rest.strip_prefix('.') {
            *rest = more;
            let precision = self.number(rest)?.unwrap_or(0);
            spec.precision = Some(precision.max(0) as usize);
        }
        *rest = rest.trim_start_matches(['h', 'l', 'L']);
        if spec.align.is_some() {
            spec.zeros = false;
        }
        Ok(spec)
    }

    fn number(&mut self, rest: &mut &str) -> Outcome<Option<i64>> {
        if let Some(more) = rest.strip_prefix('*') {
            *rest = more;
            return match self.next()?.as_int() {
                Some(number) if number.unsigned_abs() <= MAX_WIDTH as u128 => {
                    Ok(Some(number as i64))
                }
                Some(_) => too_wide(),
                None => raise("* wants int"),
            };
        }
        let size =
            rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, more) = rest.split_at(size);
        *rest = more;
        if digits.is_empty() {
            return Ok(None);
        }
        match digits.parse() {
            Ok(number) if number <= MAX_WIDTH as i64 => Ok(Some(number)),
            _ => too_wide(),
        }
    }

    fn one(
        &self,
        render: &mut Render,
        spec: &Spec,
        kind: char,
        value: &Value,
    ) -> Outcome<String> {
        let text = match kind {
            's' => render.str_of(value)?,
            'r' | 'a' => render.repr_of(value)?,
            'c' => character(value)?,
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' => {
                return integer(spec, kind, value)
            }
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
                return float(spec, kind, value)
            }
            other => {
                return raise(format!("unsupported format character '{other}'"))
            }
        };
        let is_safe = matches!(value, Value::Str(text) if text.safe);
        let text = if self.safe && !is_safe { escaped(&text) } else { text };
        let cut: String = match spec.precision {
            Some(most) if kind != 'c' => text.chars().take(most).collect(),
            _ => text,
        };
        let plain = Spec { zeros: false, ..Spec::default() };
        let spec = Spec { align: spec.align, width: spec.width, ..plain };
        Ok(spec.padded("", &cut, '>'))
    }
}

fn too_wide<T>() -> Outcome<T> {
    raise(format!("widths must be at most {MAX_WIDTH}"))
}

fn character(value: &Value) -> Outcome<String> {
    if let Some(text) = value.as_str() {
        return match text.chars().count() {
            1 => Ok(text.to_owned()),
            _ => raise("%c requires int or char"),
        };
    }
    let code = value.as_int().and_then(|code| u32::try_from(code).ok());
    match code.and_then(char::from_u32) {
        Some(c) => Ok(c.to_string()),
        None => raise("%c requires int or char"),
    }
}

fn integer(spec: &Spec, kind: char, value: &Value) -> Outcome<String> {
    let number = match value {
        Value::Undefined(undefined) => return raise(&*undefined.why),
        Value::Float(number)
            if !matches!(kind, 'x' | 'X' | 'o') && number.is_finite() =>
        {
            number.trunc() as i128
        }
        other => match other.as_int() {
            Some(number) => number,
            None => {
                return raise(format!(
                    "%{kind} format: a real number is required, not {}",
                    other.type_name()
                ))
            }
        },
    };
    let size = number.unsigned_abs();
    let (prefix, digits) = match kind {
        'x' => ("0x", format!("{size:x}")),
        'X' => ("0X", format!("{size:X}")),
        'o' => ("0o", format!("{size:o}")),
        _ => ("", size.to_string()),
    };
    let least = spec.precision.unwrap_or(0);
    let digits = format!("{digits:0>least$}");
    let prefix = if spec.alternate { prefix } else { "" };
    let sign = format!("{}{prefix}", spec.sign_of(number < 0));
    Ok(spec.padded(&sign, &digits, '>'))
}

fn float(spec: &Spec, kind: char, value: &Value) -> Outcome<String> {
    if let Value::Undefined(undefined) = value {
        return raise(&*undefined.why);
    }
    let Some(number) = as_float(value) else {
        return raise(format!(
            "must be real number, not {}",
            value.type_name()
        ));
    };
    let digits = float_digits(kind, number.abs(), spec.precision, spec);
    let mut digits = digits.unwrap_or_default();
    if kind.is_uppercase() {
        digits.make_ascii_uppercase();
    }
    let sign = spec.sign_of(number.is_sign_negative() && !number.is_nan());
    Ok(spec.padded(sign, &digits, '>'))
}
