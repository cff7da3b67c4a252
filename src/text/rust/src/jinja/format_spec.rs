//! Python's format specification: "[[fill]align][sign][#][0][width][,][.n][x]"

use super::arithmetic::as_float;
use super::error::{raise, Outcome};
use super::float_text::{float_repr, general, scientific, special};
use super::run::Render;
use super::value::Value;

#[derive(Default)]
pub struct Spec {
    pub fill: Option<char>,
    pub align: Option<char>,
    pub sign: Option<char>,
    pub alternate: bool,
    pub zeros: bool,
    pub width: usize,
    pub grouping: Option<char>,
    pub precision: Option<usize>,
    pub kind: Option<char>,
}

fn is_align(c: char) -> bool {
    matches!(c, '<' | '>' | '=' | '^')
}

pub fn parse(text: &str) -> Outcome<Spec> {
    let mut spec = Spec::default();
    let mut rest: Vec<char> = text.chars().collect();
    if rest.len() > 1 && is_align(rest[1]) {
        (spec.fill, spec.align) = (Some(rest[0]), Some(rest[1]));
        rest.drain(..2);
    } else if rest.first().is_some_and(|c| is_align(*c)) {
        spec.align = Some(rest.remove(0));
    }
    let skip = |rest: &mut Vec<char>, among: &[char]| {
        let found = rest.first().copied().filter(|c| among.contains(c));
        found.inspect(|_| {
            rest.remove(0);
        })
    };
    spec.sign = skip(&mut rest, &['+', '-', ' ']);
    skip(&mut rest, &['z']);
    spec.alternate = skip(&mut rest, &['#']).is_some();
    spec.zeros = skip(&mut rest, &['0']).is_some();
    spec.width = number(&mut rest)?.unwrap_or(0);
    spec.grouping = skip(&mut rest, &[',', '_']);
    if skip(&mut rest, &['.']).is_some() {
        spec.precision = number(&mut rest)?;
        if spec.precision.is_none() {
            return raise("Format specifier missing precision");
        }
    }
    if !rest.is_empty() {
        spec.kind = Some(rest.remove(0));
    }
    match rest.is_empty() {
        true => Ok(spec),
        false => raise(format!("Invalid format specifier '{text}'")),
    }
}

pub const MAX_WIDTH: usize = 1 << 20;

fn number(rest: &mut Vec<char>) -> Outcome<Option<usize>> {
    let size = rest.iter().take_while(|c| c.is_ascii_digit()).count();
    let digits: String = rest.drain(..size).collect();
    if digits.is_empty() {
        return Ok(None);
    }
    match digits.parse() {
        Ok(number) if number <= MAX_WIDTH => Ok(Some(number)),
        _ => raise(format!("widths must be at most {MAX_WIDTH}")),
    }
}

impl Spec {
    /// A number's sign and digits, or a text, with what fills the width.
    pub fn padded(&self, sign: &str, body: &str, otherwise: char) -> String {
        let len = sign.chars().count() + body.chars().count();
        let missing = self.width.saturating_sub(len);
        let zeros = self.zeros && self.fill.is_none();
        let fill = self.fill.unwrap_or(if zeros { '0' } else { ' ' });
        let default = if zeros && otherwise == '>' { '=' } else { otherwise };
        let fills = |num: usize| fill.to_string().repeat(num);
        match self.align.unwrap_or(default) {
            '<' => format!("{sign}{body}{}", fills(missing)),
            '=' => format!("{sign}{}{body}", fills(missing)),
            '^' => format!(
                "{}{sign}{body}{}",
                fills(missing / 2),
                fills(missing - missing / 2)
            ),
            _ => format!("{}{sign}{body}", fills(missing)),
        }
    }

    pub fn sign_of(&self, negative: bool) -> &'static str {
        match self.sign {
            _ if negative => "-",
            Some('+') => "+",
            Some(' ') => " ",
            _ => "",
        }
    }

    fn grouped(&self, digits: &str, size: usize) -> String {
        let Some(separator) = self.grouping else {
            return digits.to_owned();
        };
        let end = digits
            .find(|c: char| !c.is_ascii_hexdigit())
            .unwrap_or(digits.len());
        let (whole, rest) = digits.split_at(end);
        let mut out = String::new();
        for (i, c) in whole.chars().enumerate() {
            if i > 0 && (whole.len() - i) % size == 0 {
                out.push(separator);
            }
            out.push(c);
        }
        out + rest
    }
}

/// format(value, text)
pub fn formatted(
    render: &mut Render,
    value: &Value,
    text: &str,
) -> Outcome<String> {
    if text.is_empty() {
        return render.str_of(value);
    }
    let spec = parse(text)?;
    match value {
        Value::Str(s) => formatted_str(&spec, s.as_str()),
        Value::Float(number) => formatted_float(&spec, *number),
        Value::Bool(flag) if spec.kind.is_none() => {
            let shown = if *flag { "True" } else { "False" };
            formatted_str(&spec, shown)
        }
        Value::Int(_) | Value::Bool(_) => {
            let number = value.as_int().unwrap_or(0);
            match spec.kind {
                Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%') => {
                    let float = as_float(value).unwrap_or(0.0);
                    formatted_float(&spec, float)
                }
                _ => formatted_int(&spec, number),
            }
        }
        other => raise(format!(
            "unsupported format string passed to {}.__format__",
            other.type_name()
        )),
    }
}

fn formatted_str(spec: &Spec, text: &str) -> Outcome<String> {
    if !matches!(spec.kind, None | Some('s')) {
        return raise(format!(
            "Unknown format code '{}' for object of type 'str'",
            spec.kind.unwrap_or(' ')
        ));
    }
    if spec.sign.is_some() || spec.grouping.is_some() || spec.alternate {
        return raise(
            "Sign or grouping not allowed in string format specifier",
        );
    }
    if spec.align == Some('=') {
        return raise("'=' alignment not allowed in string format specifier");
    }
    let cut = match spec.precision {
        Some(most) => text.chars().take(most).collect(),
        None => text.to_owned(),
    };
    Ok(spec.padded("", &cut, '<'))
}

fn formatted_int(spec: &Spec, number: i128) -> Outcome<String> {
    if spec.precision.is_some() {
        return raise("Precision not allowed in integer format specifier");
    }
    let size = number.unsigned_abs();
    let (prefix, digits, group) = match spec.kind {
        None | Some('d' | 'n') => ("", size.to_string(), 3),
        Some('b') => ("0b", format!("{size:b}"), 4),
        Some('o') => ("0o", format!("{size:o}"), 4),
        Some('x') => ("0x", format!("{size:x}"), 4),
        Some('X') => ("0X", format!("{size:X}"), 4),
        Some('c') => {
            let c = u32::try_from(number).ok().and_then(char::from_u32);
            return match c {
                Some(c) => Ok(spec.padded("", &c.to_string(), '<')),
                None => raise("%c arg not in range(0x110000)"),
            };
        }
        Some(other) => {
            return raise(format!(
                "Unknown format code '{other}' for object of type 'int'"
            ))
        }
    };
    let prefix = if spec.alternate { prefix } else { "" };
    let sign = format!("{}{prefix}", spec.sign_of(number < 0));
    Ok(spec.padded(&sign, &spec.grouped(&digits, group), '>'))
}

fn formatted_float(spec: &Spec, number: f64) -> Outcome<String> {
    let sign = spec.sign_of(number.is_sign_negative() && !number.is_nan());
    let size = number.abs();
    let mut digits = match spec.kind {
        None if spec.precision.is_none() => float_repr(size),
        None => {
            let text = general(size, spec.precision.unwrap_or(6), false);
            let whole = !text.contains(['.', 'e']) && special(size).is_none();
            if whole {
                text + ".0"
            } else {
                text
            }
        }
        Some(kind) => match float_digits(kind, size, spec.precision, spec) {
            Some(digits) => digits,
            None => {
                return raise(format!(
                    "Unknown format code '{kind}' for object of type 'float'"
                ))
            }
        },
    };
    if let Some(name) = special(size) {
        digits = name.to_owned();
        if spec.kind == Some('%') {
            digits.push('%');
        }
    }
    if spec.kind.is_some_and(char::is_uppercase) {
        digits.make_ascii_uppercase();
    }
    Ok(spec.padded(sign, &spec.grouped(&digits, 3), '>'))
}

/// A float that is not negative, by the letter of its format.
pub fn float_digits(
    kind: char,
    size: f64,
    precision: Option<usize>,
    spec: &Spec,
) -> Option<String> {
    let precision = precision.unwrap_or(6);
    if let Some(name) = special(size) {
        return Some(name.to_owned());
    }
    let point = if spec.alternate && precision == 0 { "." } else { "" };
    Some(match kind {
        'f' | 'F' => format!("{size:.precision$}{point}"),
        'e' | 'E' => scientific(size, precision, spec.alternate),
        'g' | 'G' | 'n' => general(size, precision, spec.alternate),
        '%' => format!("{:.precision$}{point}%", size * 100.0),
        _ => return None,
    })
}
