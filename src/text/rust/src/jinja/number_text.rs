//! Numbers as templates and Python's int() and float() read them.

use super::lexer::Tok;
use super::str_kinds::{decimal_value, trim_end, trim_start};

/// How many bytes of digits, "_" between them, `text` begins with.
fn digits(text: &str, is_digit: impl Fn(u8) -> bool) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        let from = at + usize::from(at > 0 && bytes.get(at) == Some(&b'_'));
        let mut next = from;
        while bytes.get(next).is_some_and(|b| is_digit(*b)) {
            next += 1;
        }
        if next == from {
            return at;
        }
        at = next;
    }
}

fn decimals(text: &str) -> usize {
    digits(text, |b| b.is_ascii_digit())
}

/// The size of a float: with a fraction or an exponent.
fn float_size(text: &str) -> Option<usize> {
    let whole = decimals(text);
    if whole == 0 {
        return None;
    }
    let mut size = whole;
    if text[size..].starts_with('.') {
        let fraction = decimals(&text[size + 1..]);
        if fraction > 0 {
            size += 1 + fraction;
        }
    }
    let rest = &text[size..];
    if rest.starts_with(['e', 'E']) {
        let sign = usize::from(rest[1..].starts_with(['+', '-']));
        let exponent = decimals(&rest[1 + sign..]);
        if exponent > 0 {
            size += 1 + sign + exponent;
        }
    }
    (size > whole).then_some(size)
}

/// The number that `text` begins with, and its size.
pub fn number_token(
    text: &str,
    after_dot: bool,
) -> Option<(Result<Tok, String>, usize)> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if let Some(size) = float_size(text).filter(|_| !after_dot) {
        let plain = text[..size].replace('_', "");
        let value = plain.parse::<f64>().map(Tok::Float);
        return Some((value.map_err(|_| plain), size));
    }
    for (prefix, radix) in [("0b", 2), ("0o", 8), ("0x", 16)] {
        let has = text.get(..2).is_some_and(|p| p.eq_ignore_ascii_case(prefix));
        let inner = if has { &text[2..] } else { "" };
        let lead = usize::from(inner.starts_with('_'));
        let size =
            digits(&inner[lead..], |b| (b as char).is_digit(radix)) + lead;
        if size > lead {
            let plain = inner[..size].replace('_', "");
            return Some((whole(&plain, radix), 2 + size));
        }
    }
    let size = if text.starts_with('0') {
        digits(text, |b| b == b'0')
    } else {
        decimals(text)
    };
    Some((whole(&text[..size].replace('_', ""), 10), size))
}

fn whole(digits: &str, radix: u32) -> Result<Tok, String> {
    i128::from_str_radix(digits, radix)
        .map(Tok::Int)
        .map_err(|_| format!("the number {digits} is too large"))
}

/// ASCII digits for those of all scripts; None where "_" is misplaced.
fn plain(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut last = '_';
    for c in trim_start(trim_end(text)).chars() {
        let c = decimal_value(c)
            .map_or(c, |v| char::from_digit(v, 10).expect("a decimal digit"));
        if c == '_' {
            if !last.is_ascii_alphanumeric() {
                return None;
            }
        } else {
            if last == '_' && !out.is_empty() && !c.is_ascii_alphanumeric() {
                return None;
            }
            out.push(c);
        }
        last = c;
    }
    (last != '_').then_some(out)
}

/// int(text, base)
pub fn parse_int(text: &str, base: u32) -> Option<i128> {
    let plain = plain(text)?;
    let (negative, digits) = match plain.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, plain.strip_prefix('+').unwrap_or(&plain)),
    };
    let prefixed = |prefix: &str| {
        let head = digits.get(..2)?;
        head.eq_ignore_ascii_case(prefix).then(|| &digits[2..])
    };
    let of = |base: u32| match base {
        2 => prefixed("0b"),
        8 => prefixed("0o"),
        16 => prefixed("0x"),
        _ => None,
    };
    let (base, digits) = if base == 0 {
        let found = [2, 8, 16].iter().find_map(|b| Some((*b, of(*b)?)));
        let zeros = digits.starts_with('0') && digits.trim_matches('0') != "";
        if found.is_none() && zeros {
            return None;
        }
        found.unwrap_or((10, digits))
    } else {
        (base, of(base).unwrap_or(digits))
    };
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let value = i128::from_str_radix(digits, base).ok()?;
    Some(if negative { -value } else { value })
}

/// float(text)
pub fn parse_float(text: &str) -> Option<f64> {
    let plain = plain(text)?;
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    let named = ["inf", "infinity", "nan"]
        .iter()
        .any(|name| unsigned.eq_ignore_ascii_case(name));
    let begins = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    (named || begins).then(|| plain.parse().ok()).flatten()
}
