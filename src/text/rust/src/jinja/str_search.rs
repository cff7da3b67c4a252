//! The methods of str that look for something in it.

use super::arguments::{int_or, need_int, need_str, Arguments};
use super::error::{raise, Outcome};
use super::run::Render;
use super::str_kinds::is_space;
use super::str_methods::keeps_ends;
use super::value::{Text, Value};

pub fn call(
    render: &mut Render,
    text: &Text,
    name: &str,
    arguments: Arguments,
) -> Outcome<Value> {
    let s = text.as_str();
    let like = |made: &str| Value::Str(Text::new(made, text.safe));
    let parts = match name {
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = arguments.only::<1>(name, 0)?;
            return Ok(like(stripped(s, name, chars.as_ref())?));
        }
        "removeprefix" | "removesuffix" => {
            let [part] = arguments.only::<1>(name, 1)?;
            let part = part.unwrap_or(Value::None);
            let part = need_str(&part)?;
            return Ok(like(
                match name {
                    "removeprefix" => s.strip_prefix(part),
                    _ => s.strip_suffix(part),
                }
                .unwrap_or(s),
            ));
        }
        "partition" | "rpartition" => {
            let [separator] = arguments.only::<1>(name, 1)?;
            let separator = separator.unwrap_or(Value::None);
            let parts = parted(s, name, need_str(&separator)?)?;
            let parts = parts.iter().map(|part| like(part)).collect();
            return Ok(Value::tuple(parts));
        }
        "split" | "rsplit" => {
            let [separator, most] =
                arguments.bind(name, ["sep", "maxsplit"], 0)?;
            let most = usize::try_from(int_or(most, -1)?);
            let most = most.unwrap_or(usize::MAX);
            split(s, name == "rsplit", separator.as_ref(), most)?
        }
        "splitlines" => lines(s, keeps_ends(arguments)?),
        _ => return found(text, name, arguments),
    };
    render.room_for_items(parts.len())?;
    Ok(Value::list(parts.into_iter().map(like).collect()))
}

pub fn stripped<'a>(
    s: &'a str,
    name: &str,
    chars: Option<&Value>,
) -> Outcome<&'a str> {
    let chars = match chars {
        None | Some(Value::None) => None,
        Some(chars) => Some(need_str(chars)?),
    };
    let is_one = |c: char| match chars {
        None => is_space(c),
        Some(chars) => chars.contains(c),
    };
    Ok(match name {
        "strip" => s.trim_matches(is_one),
        "lstrip" => s.trim_start_matches(is_one),
        _ => s.trim_end_matches(is_one),
    })
}

fn parted<'a>(
    s: &'a str,
    name: &str,
    separator: &'a str,
) -> Outcome<[&'a str; 3]> {
    if separator.is_empty() {
        return raise("empty separator");
    }
    Ok(match name {
        "partition" => match s.split_once(separator) {
            Some((before, after)) => [before, separator, after],
            None => [s, "", ""],
        },
        _ => match s.rsplit_once(separator) {
            Some((before, after)) => [before, separator, after],
            None => ["", "", s],
        },
    })
}

fn split<'a>(
    s: &'a str,
    from_end: bool,
    separator: Option<&Value>,
    most: usize,
) -> Outcome<Vec<&'a str>> {
    let separator = match separator {
        None | Some(Value::None) => {
            return Ok(words(s, from_end, most));
        }
        Some(separator) => need_str(separator)?,
    };
    if separator.is_empty() {
        return raise("empty separator");
    }
    let most = most.saturating_add(1);
    if !from_end {
        return Ok(s.splitn(most, separator).collect());
    }
    let mut parts: Vec<&str> = s.rsplitn(most, separator).collect();
    parts.reverse();
    Ok(parts)
}

/// Between runs of white space; the last word takes the rest.
fn words(s: &str, from_end: bool, most: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = match from_end {
        true => s.trim_end_matches(is_space),
        false => s.trim_start_matches(is_space),
    };
    while !rest.is_empty() {
        let cut = match (parts.len() < most, from_end) {
            (false, _) => None,
            (true, true) => rest.rfind(is_space),
            (true, false) => rest.find(is_space),
        };
        let Some(at) = cut else {
            // What is left keeps the white space inside it.
            parts.push(match from_end {
                true => rest.trim_end_matches(is_space),
                false => rest,
            });
            break;
        };
        let size = rest[at..].chars().next().map_or(1, char::len_utf8);
        if from_end {
            parts.push(&rest[at + size..]);
            rest = rest[..at].trim_end_matches(is_space);
        } else {
            parts.push(&rest[..at]);
            rest = rest[at..].trim_start_matches(is_space);
        }
    }
    if from_end {
        parts.reverse();
    }
    parts
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}'
        | '\u{2029}')
}

pub fn lines(s: &str, keeps_ends: bool) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), s);
    while !rest.is_empty() {
        let Some(at) = rest.find(is_line_end) else {
            parts.push(rest);
            break;
        };
        let size = match rest[at..].starts_with("\r\n") {
            true => 2,
            false => rest[at..].chars().next().map_or(1, char::len_utf8),
        };
        parts.push(&rest[..if keeps_ends { at + size } else { at }]);
        rest = &rest[at + size..];
    }
    parts
}

/// find, index, count, startswith: between characters `from` and `to`.
fn found(text: &Text, name: &str, arguments: Arguments) -> Outcome<Value> {
    let [part, from, to] = arguments.only::<3>(name, 1)?;
    let part = part.unwrap_or(Value::None);
    let len = text.len() as i128;
    let bound = |given: Option<Value>, otherwise: i128| match given {
        None | Some(Value::None) => Ok(otherwise),
        Some(given) => need_int(&given).map(|at| {
            if at < 0 {
                at.saturating_add(len).max(0)
            } else {
                at
            }
        }),
    };
    let (from, to) = (bound(from, 0)?, bound(to, len)?.min(len));
    let is_there = from <= to;
    let first = text.byte_at(from.clamp(0, len) as usize);
    let last = text.byte_at(to.max(from.clamp(0, len)) as usize);
    let inside = &text.as_str()[first..last];
    if name == "startswith" || name == "endswith" {
        return ends(inside, name, &part, is_there).map(Value::Bool);
    }
    let part = need_str(&part)?;
    if name == "count" {
        let count = match (is_there, part.is_empty()) {
            (false, _) => 0,
            (true, true) => inside.chars().count() + 1,
            (true, false) => inside.matches(part).count(),
        };
        return Ok(Value::count(count));
    }
    let at = match name {
        "find" | "index" => inside.find(part),
        _ => inside.rfind(part),
    };
    match at.filter(|_| is_there) {
        Some(at) => Ok(Value::count(text.chars_before(first + at))),
        None if name.ends_with("index") => raise("substring not found"),
        None => Ok(Value::Int(-1)),
    }
}

fn ends(
    inside: &str,
    name: &str,
    part: &Value,
    is_there: bool,
) -> Outcome<bool> {
    if let Value::Tuple(parts) = part {
        for part in parts.iter() {
            if ends(inside, name, part, is_there)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    let Some(part) = part.as_str() else {
        return raise(format!(
            "{name} first arg must be str or a tuple of str, not {}",
            part.type_name()
        ));
    };
    Ok(is_there
        && match name {
            "startswith" => inside.starts_with(part),
            _ => inside.ends_with(part),
        })
}
