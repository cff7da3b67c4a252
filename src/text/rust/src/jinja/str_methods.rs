//! The methods of str.

use super::arguments::{flag_or, int_or, need_int, need_str, Arguments};
use super::dict::Dict;
use super::error::{raise, Outcome};
use super::items::iterate;
use super::run::Render;
use super::str_format;
use super::str_kinds::{
    capitalized, decimal_value, folded, is_all, is_digit, is_letter,
    is_numeric, is_printable, is_space, is_titled, swapped, titled,
};
use super::str_search;
use super::text_filters::escaped;
use super::value::{Text, Value};

pub const NAMES: [&str; 46] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "maketrans",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "zfill",
];

pub fn call(
    render: &mut Render,
    text: &Text,
    name: &str,
    arguments: Arguments,
) -> Outcome<Value> {
    let s = text.as_str();
    render.room_for(s.len())?;
    let like = |made: &str| Value::Str(Text::new(made, text.safe));
    match name {
        "find" | "rfind" | "index" | "rindex" | "count" | "startswith"
        | "endswith" | "split" | "rsplit" | "splitlines" | "partition"
        | "rpartition" | "strip" | "lstrip" | "rstrip" | "removeprefix"
        | "removesuffix" => str_search::call(render, text, name, arguments),
        "format" => str_format::format(render, text, arguments),
        "format_map" => str_format::format_map(render, text, arguments),
        "join" => join(render, text, arguments),
        "replace" => replace(render, text, arguments),
        "center" | "ljust" | "rjust" | "zfill" => {
            pad(render, text, name, arguments)
        }
        "expandtabs" => expand_tabs(render, text, arguments),
        "maketrans" => make_table(render, arguments),
        "translate" => translate(render, text, arguments),
        _ => {
            arguments.none(name)?;
            Ok(match name {
                "capitalize" => like(&capitalized(s)),
                "casefold" => like(&folded(s)),
                "lower" => like(&s.to_lowercase()),
                "upper" => like(&s.to_uppercase()),
                "title" => like(&titled(s)),
                "swapcase" => like(&swapped(s)),
                _ => Value::Bool(is_kind(s, name)),
            })
        }
    }
}

fn is_kind(s: &str, name: &str) -> bool {
    let all = |is: fn(char) -> bool| !s.is_empty() && s.chars().all(is);
    match name {
        "isalpha" => all(is_letter),
        "isalnum" => all(|c| is_letter(c) || is_numeric(c)),
        "isdecimal" => all(|c| decimal_value(c).is_some()),
        "isdigit" => all(is_digit),
        "isnumeric" => all(is_numeric),
        "isspace" => all(is_space),
        "isascii" => s.is_ascii(),
        "isprintable" => s.chars().all(is_printable),
        "islower" => is_all(s, char::is_uppercase),
        "isupper" => is_all(s, char::is_lowercase),
        "istitle" => is_titled(s),
        _ => is_identifier(s),
    }
}

fn is_identifier(s: &str) -> bool {
    s.starts_with(|c| is_letter(c) || c == '_')
        && s.chars().all(|c| c == '_' || c.is_alphanumeric())
}

/// As Markup takes what is no Markup.
fn fitting(text: &Text, other: &str) -> String {
    match text.safe {
        true => escaped(other),
        false => other.to_owned(),
    }
}

fn join(
    render: &mut Render,
    text: &Text,
    arguments: Arguments,
) -> Outcome<Value> {
    let [values] = arguments.only::<1>("join", 1)?;
    let mut values = iterate(&values.unwrap_or(Value::None))?;
    let (mut out, mut at) = (String::new(), 0);
    while let Some(item) = values.next(render)? {
        if at > 0 {
            out.push_str(text.as_str());
        }
        match &item {
            Value::Str(item) if text.safe && !item.safe => {
                out.push_str(&escaped(item.as_str()))
            }
            Value::Str(item) => out.push_str(item.as_str()),
            other if text.safe => {
                let shown = render.str_of(other)?;
                out.push_str(&escaped(&shown));
            }
            other => {
                return raise(format!(
                    "sequence item {at}: expected str instance, {} found",
                    other.type_name()
                ))
            }
        }
        at += 1;
        if out.len() > render.limits.max_bytes {
            render.room_for(out.len())?;
        }
    }
    render.room_for(out.len())?;
    Ok(Value::Str(Text::new(&out, text.safe)))
}

/// At most `count` times; all where it is negative.
pub fn replaced(
    render: &mut Render,
    text: &str,
    old: &str,
    new: &str,
    count: i128,
) -> Outcome<String> {
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    let found = if old.is_empty() {
        text.chars().count() + 1
    } else {
        text.matches(old).count()
    };
    let num = found.min(most);
    let grown = num.saturating_mul(new.len()).saturating_add(text.len());
    render.room_for(grown)?;
    Ok(text.replacen(old, new, num))
}

fn replace(
    render: &mut Render,
    text: &Text,
    arguments: Arguments,
) -> Outcome<Value> {
    let [old, new, count] =
        arguments.bind("replace", ["old", "new", "count"], 2)?;
    let (old, new) = (old.unwrap_or(Value::None), new.unwrap_or(Value::None));
    let new = fitting(text, need_str(&new)?);
    let count = int_or(count, -1)?;
    let s = text.as_str();
    let made = replaced(render, s, need_str(&old)?, &new, count)?;
    Ok(Value::Str(Text::new(&made, text.safe)))
}

fn pad(
    render: &mut Render,
    text: &Text,
    name: &str,
    arguments: Arguments,
) -> Outcome<Value> {
    let [width, fill] = match name {
        "zfill" => {
            let [width] = arguments.only::<1>(name, 1)?;
            [width, None]
        }
        _ => arguments.only::<2>(name, 1)?,
    };
    let width = need_int(&width.unwrap_or(Value::None))?;
    let width = usize::try_from(width.max(0)).unwrap_or(usize::MAX);
    let fill = match &fill {
        None => " ",
        Some(fill) => need_str(fill)?,
    };
    if fill.chars().count() != 1 {
        return raise("The fill character must be exactly one character long");
    }
    let missing = width.saturating_sub(text.len());
    render.room_for(missing.saturating_mul(fill.len()))?;
    let s = text.as_str();
    let made = match name {
        "ljust" => s.to_owned() + &fill.repeat(missing),
        "rjust" => fill.repeat(missing) + s,
        "zfill" => {
            let signed = s.starts_with(['+', '-']);
            let (sign, digits) = s.split_at(usize::from(signed));
            format!("{sign}{}{digits}", "0".repeat(missing))
        }
        _ => centered(s, missing, width, fill),
    };
    Ok(Value::Str(Text::new(&made, text.safe)))
}

/// The odd one stands left where the width is odd.
fn centered(s: &str, missing: usize, width: usize, fill: &str) -> String {
    let left = missing / 2 + (missing & width & 1);
    format!("{}{s}{}", fill.repeat(left), fill.repeat(missing - left))
}

pub fn center(render: &mut Render, text: &Text, width: i128) -> Outcome<Value> {
    let width = usize::try_from(width.max(0)).unwrap_or(usize::MAX);
    let missing = width.saturating_sub(text.len());
    render.room_for(missing)?;
    let made = centered(text.as_str(), missing, width, " ");
    Ok(Value::Str(Text::new(&made, text.safe)))
}

fn expand_tabs(
    render: &mut Render,
    text: &Text,
    arguments: Arguments,
) -> Outcome<Value> {
    let [size] = arguments.bind("expandtabs", ["tabsize"], 0)?;
    let size = usize::try_from(int_or(size, 8)?.max(0)).unwrap_or(0);
    let tabs = text.as_str().matches('\t').count();
    render.room_for(tabs.saturating_mul(size))?;
    let (mut out, mut column) = (String::new(), 0);
    for c in text.as_str().chars() {
        if c == '\t' {
            let num = if size == 0 { 0 } else { size - column % size };
            out.push_str(&" ".repeat(num));
            column += num;
        } else {
            out.push(c);
            column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
        }
    }
    Ok(Value::Str(Text::new(&out, text.safe)))
}

fn make_table(render: &mut Render, arguments: Arguments) -> Outcome<Value> {
    let [from, to, without] = arguments.only::<3>("maketrans", 1)?;
    let mut table = Dict::default();
    let code = |c: char| Value::Int(i128::from(u32::from(c)));
    match (from, to) {
        (Some(Value::Dict(dict)), None) => {
            for (key, value) in dict.entries() {
                let key = match key.as_str().map(|s| s.chars().next()) {
                    Some(Some(c)) => code(c),
                    _ => key.clone(),
                };
                table.insert(key, value.clone())?;
            }
        }
        (Some(from), Some(to)) => {
            let (from, to) = (need_str(&from)?, need_str(&to)?);
            if from.chars().count() != to.chars().count() {
                return raise(
                    "the first two maketrans arguments must have equal length",
                );
            }
            for (from, to) in from.chars().zip(to.chars()) {
                table.insert(code(from), code(to))?;
            }
            if let Some(without) = &without {
                for c in need_str(without)?.chars() {
                    table.insert(code(c), Value::None)?;
                }
            }
        }
        _ => {
            return raise(
                "if you give only one argument to maketrans it must be a dict",
            )
        }
    }
    render.step(table.len() as u64)?;
    Ok(Value::Dict(std::rc::Rc::new(table)))
}

fn translate(
    render: &mut Render,
    text: &Text,
    arguments: Arguments,
) -> Outcome<Value> {
    let [table] = arguments.only::<1>("translate", 1)?;
    let Some(Value::Dict(table)) = table else {
        return raise("the table must be a dict");
    };
    let mut out = String::new();
    for c in text.as_str().chars() {
        render.step(1)?;
        match table.get(&Value::Int(i128::from(u32::from(c))))? {
            None => out.push(c),
            Some(Value::None) => (),
            Some(Value::Str(more)) => out.push_str(more.as_str()),
            Some(other) => {
                let code = u32::try_from(need_int(other)?).ok();
                match code.and_then(char::from_u32) {
                    Some(c) => out.push(c),
                    None => return raise("character mapping out of range"),
                }
            }
        }
        render.room_for(out.len() / 256)?;
    }
    Ok(Value::Str(Text::new(&out, text.safe)))
}

/// Whether splitlines keeps what ends a line.
pub fn keeps_ends(arguments: Arguments) -> Outcome<bool> {
    let [keeps] = arguments.bind("splitlines", ["keepends"], 0)?;
    Ok(flag_or(keeps, false))
}
