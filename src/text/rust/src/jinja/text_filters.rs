//! The filters of texts.

use super::arguments::{
    flag_or, int_or, need_int, need_str, optional_int, Arguments,
};
use super::error::{raise, Outcome};
use super::items::iterate;
use super::run::Render;
use super::str_kinds::{capitalized, is_space, is_word};
use super::str_methods::{center, replaced};
use super::str_search::{lines, stripped};
use super::value::{Text, Value};
use super::word_wrap;

pub const NAMES: [&str; 20] = [
    "capitalize",
    "center",
    "e",
    "escape",
    "forceescape",
    "indent",
    "join",
    "lower",
    "replace",
    "safe",
    "striptags",
    "title",
    "trim",
    "truncate",
    "upper",
    "urlencode",
    "wordcount",
    "wordwrap",
    "xmlattr",
    "reverse",
];

pub fn apply(
    render: &mut Render,
    name: &str,
    value: Value,
    arguments: Arguments,
) -> Outcome<Value> {
    match name {
        "join" => return join(render, &value, arguments),
        "reverse" => return reverse(render, &value, arguments),
        "urlencode" => return url_encode(render, &value, arguments),
        "xmlattr" => return xml_attributes(render, &value, arguments),
        // A short list is as good as a short text, to Python.
        "truncate" if value.as_str().is_none() => {
            let most = arguments.positional.first().and_then(Value::as_int);
            let most = most.unwrap_or(255).saturating_add(5);
            return match value.len() {
                Some(len) if len as i128 <= most => Ok(value),
                _ => raise("truncate: must be str"),
            };
        }
        "indent" | "wordwrap" if value.as_str().is_none() => {
            return raise(format!(
                "{name}: must be str, not {}",
                value.type_name()
            ))
        }
        _ => (),
    }
    let text = match &value {
        Value::Str(text) => text.clone(),
        other => Text::new(&render.str_of(other)?, false),
    };
    let s = text.as_str();
    render.room_for(s.len())?;
    let like = |made: &str| Value::Str(Text::new(made, text.safe));
    match name {
        "replace" => return replace(render, s, arguments),
        "center" => {
            let [width] = arguments.bind(name, ["width"], 0)?;
            return center(render, &text, int_or(width, 80)?);
        }
        "trim" => {
            let [chars] = arguments.bind(name, ["chars"], 0)?;
            return Ok(like(stripped(s, "strip", chars.as_ref())?));
        }
        "indent" => return indent(render, &text, arguments),
        "truncate" => return truncate(&text, arguments),
        "wordwrap" => return word_wrap::wrapped(render, &text, arguments),
        _ => arguments.none(name)?,
    }
    Ok(match name {
        "upper" => like(&s.to_uppercase()),
        "lower" => like(&s.to_lowercase()),
        "capitalize" => like(&capitalized(s)),
        "title" => Value::from(titled(s)),
        "wordcount" => Value::count(word_count(s)),
        "safe" => Value::Str(Text::new(s, true)),
        "striptags" => Value::from(without_tags(s)),
        "forceescape" => Value::Str(Text::new(&escaped(s), true)),
        _ if text.safe => value,
        _ => Value::Str(Text::new(&escaped(s), true)),
    })
}

/// As HTML has it.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    out
}

fn word_count(s: &str) -> usize {
    s.split(|c| !is_word(c)).filter(|word| !word.is_empty()).count()
}

/// Jinja's own: words begin behind white space, hyphens and brackets.
fn titled(s: &str) -> String {
    let is_break = |c: char| "-({[<".contains(c) || is_space(c);
    let mut out = String::new();
    let mut rest = s;
    while !rest.is_empty() {
        let first_breaks = rest.starts_with(is_break);
        let end = rest
            .find(|c: char| is_break(c) != first_breaks)
            .unwrap_or(rest.len());
        let (item, more) = rest.split_at(end);
        let mut chars = item.chars();
        out.extend(chars.next().into_iter().flat_map(char::to_uppercase));
        out.push_str(&chars.as_str().to_lowercase());
        rest = more;
    }
    out
}

fn replace(
    render: &mut Render,
    s: &str,
    arguments: Arguments,
) -> Outcome<Value> {
    let [old, new, count] =
        arguments.bind("replace", ["old", "new", "count"], 2)?;
    let old = render.str_of(&old.unwrap_or(Value::None))?;
    let new = render.str_of(&new.unwrap_or(Value::None))?;
    let count = optional_int(count)?.unwrap_or(-1);
    replaced(render, s, &old, &new, count).map(Value::from)
}

fn join(
    render: &mut Render,
    value: &Value,
    arguments: Arguments,
) -> Outcome<Value> {
    let [separator, attribute] =
        arguments.bind("join", ["d", "attribute"], 0)?;
    let separator = match separator {
        Some(separator) => render.str_of(&separator)?,
        None => String::new(),
    };
    let path = render.path(attribute)?;
    let mut items = iterate(value)?;
    let (mut out, mut is_first) = (String::new(), true);
    while let Some(item) = items.next(render)? {
        if !is_first {
            out.push_str(&separator);
        }
        is_first = false;
        let item = render.follow(item, &path, None)?;
        out.push_str(&render.str_of(&item)?);
        if out.len() > render.limits.max_bytes {
            render.room_for(out.len())?;
        }
    }
    render.room_for(out.len())?;
    Ok(Value::from(out))
}

fn reverse(
    render: &mut Render,
    value: &Value,
    arguments: Arguments,
) -> Outcome<Value> {
    arguments.none("reverse")?;
    if let Value::Str(text) = value {
        render.room_for(text.as_str().len())?;
        let made: String = text.as_str().chars().rev().collect();
        return Ok(Value::Str(Text::new(&made, text.safe)));
    }
    if let Some(items) = render.backwards(value)? {
        return Ok(Value::items(items));
    }
    match value {
        Value::Items(_) => {
            let items = render.listed(value)?;
            Ok(Value::list(items.iter().rev().cloned().collect()))
        }
        _ => raise("argument must be iterable"),
    }
}

fn indent(
    render: &mut Render,
    text: &Text,
    arguments: Arguments,
) -> Outcome<Value> {
    let [width, first, blank] =
        arguments.bind("indent", ["width", "first", "blank"], 0)?;
    let width = match &width {
        None => "    ".to_owned(),
        Some(Value::Str(text)) => text.as_str().to_owned(),
        Some(width) => {
            let width = usize::try_from(need_int(width)?).unwrap_or(0);
            render.room_for(width)?;
            " ".repeat(width)
        }
    };
    let (first, blank) = (flag_or(first, false), flag_or(blank, false));
    let s = format!("{}\n", text.as_str());
    let lines = lines(&s, false);
    render.room_for(s.len() + lines.len().saturating_mul(width.len()))?;
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        let indents = if i == 0 { first } else { blank || !line.is_empty() };
        if indents {
            out.push_str(&width);
        }
        out.push_str(line);
    }
    Ok(Value::Str(Text::new(&out, text.safe)))
}

fn truncate(text: &Text, arguments: Arguments) -> Outcome<Value> {
    let [length, kill, end, leeway] = arguments.bind(
        "truncate",
        ["length", "killwords", "end", "leeway"],
        0,
    )?;
    let length = int_or(length, 255)?;
    let end = end.unwrap_or_else(|| Value::from("..."));
    let end = need_str(&end)?;
    let leeway = optional_int(leeway)?.unwrap_or(5);
    let end_len = end.chars().count() as i128;
    if length < end_len {
        return raise(format!("expected length >= {end_len}, got {length}"));
    }
    if leeway < 0 {
        return raise(format!("expected leeway >= 0, got {leeway}"));
    }
    if text.len() as i128 <= length.saturating_add(leeway) {
        return Ok(Value::Str(text.clone()));
    }
    let kept = &text.as_str()[..text.byte_at((length - end_len) as usize)];
    let kept = match flag_or(kill, false) {
        true => kept,
        false => kept.rsplit_once(' ').map_or(kept, |(before, _)| before),
    };
    Ok(Value::Str(Text::new(&format!("{kept}{end}"), text.safe)))
}

fn without_tags(s: &str) -> String {
    let (mut parts, mut rest) = (String::new(), s);
    while let Some(start) = rest.find('<') {
        let tag = &rest[start..];
        let end = match tag.starts_with("<!--") {
            true => tag[4..].find("-->").map(|at| at + 7),
            false => tag.find('>').map(|at| at + 1),
        };
        let Some(end) = end else { break };
        parts.push_str(&rest[..start]);
        rest = &tag[end..];
    }
    parts.push_str(rest);
    let words: Vec<&str> =
        parts.split(is_space).filter(|word| !word.is_empty()).collect();
    words
        .join(" ")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&#34;", "\"")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}

fn quoted_url(s: &str, in_query: bool) -> String {
    let mut out = String::new();
    for byte in s.bytes() {
        let plain = byte.is_ascii_alphanumeric()
            || b"_.-~".contains(&byte)
            || (byte == b'/' && !in_query);
        if plain {
            out.push(char::from(byte));
        } else if byte == b' ' && in_query {
            out.push('+');
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn url_encode(
    render: &mut Render,
    value: &Value,
    arguments: Arguments,
) -> Outcome<Value> {
    arguments.none("urlencode")?;
    let pairs = match value {
        Value::Dict(dict) => {
            Value::View(dict.clone(), super::value::View::Pairs)
        }
        other => other.clone(),
    };
    let is_text = pairs.as_str().is_some();
    let Some(mut items) =
        super::items::maybe_iterate(&pairs).filter(|_| !is_text)
    else {
        return Ok(Value::from(quoted_url(&render.str_of(value)?, false)));
    };
    let mut parts = Vec::new();
    while let Some(pair) = items.next(render)? {
        let pair = render.listed(&pair)?;
        let [key, value] = &pair[..] else {
            return raise("not enough values to unpack (expected 2)");
        };
        let (key, value) = (render.str_of(key)?, render.str_of(value)?);
        let sides = (quoted_url(&key, true), quoted_url(&value, true));
        parts.push(format!("{}={}", sides.0, sides.1));
    }
    Ok(Value::from(parts.join("&")))
}

fn xml_attributes(
    render: &mut Render,
    value: &Value,
    arguments: Arguments,
) -> Outcome<Value> {
    let [space] = arguments.bind("xmlattr", ["autospace"], 0)?;
    let Value::Dict(dict) = value else {
        return raise(format!(
            "'{}' object has no attribute 'items'",
            value.type_name()
        ));
    };
    let mut parts = Vec::new();
    for (key, value) in dict.entries() {
        if matches!(value, Value::None | Value::Undefined(_)) {
            continue;
        }
        let (key, value) = (render.str_of(key)?, render.str_of(value)?);
        let is_wrong =
            |c: char| c.is_ascii_whitespace() || "/>=\x0b".contains(c);
        if key.contains(is_wrong) {
            return raise(format!(
                "Invalid character in attribute name: '{key}'"
            ));
        }
        parts.push(format!("{}=\"{}\"", escaped(&key), escaped(&value)));
    }
    let lead = match flag_or(space, true) && !parts.is_empty() {
        true => " ",
        false => "",
    };
    Ok(Value::from(format!("{lead}{}", parts.join(" "))))
}
