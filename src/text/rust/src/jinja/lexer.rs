//! The tokens of a template, with trim_blocks and lstrip_blocks.

use super::error::{Error, Kind, Outcome};
use super::number_text::number_token;
use super::str_kinds::{trim_end, trim_start};
use super::syntax::Name;

#[derive(Clone, Debug, PartialEq)]
pub enum Tok {
    Data(Box<str>),
    PrintBegin,
    PrintEnd,
    BlockBegin,
    BlockEnd,
    Name(Name),
    Str(String),
    Int(i128),
    Float(f64),
    Op(&'static str),
    End,
}

pub struct Token {
    pub line: u32,
    pub tok: Tok,
}

/// Longest first.
const OPERATORS: [&str; 27] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]",
    "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";", "!",
];

fn wrong<T>(line: u32, message: impl Into<String>) -> Outcome<T> {
    Err(Error::new(Kind::Syntax, message).at(line))
}

/// Lines end in "\n"; one at the template's end is left out.
pub fn normalized(source: &str) -> String {
    let text = source.replace("\r\n", "\n").replace('\r', "\n");
    match text.strip_suffix('\n') {
        Some(shorter) => shorter.to_owned(),
        None => text,
    }
}

/// `source` is normalized.
pub fn tokens(source: &str) -> Outcome<Vec<Token>> {
    let mut lexer =
        Lexer { source, at: 0, line: 1, starts_line: true, tokens: Vec::new() };
    lexer.data()?;
    let line = lexer.line;
    lexer.tokens.push(Token { line, tok: Tok::End });
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: u32,
    /// Whether what was read last ended in a line break.
    starts_line: bool,
    tokens: Vec<Token>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    /// Goes on behind `num_bytes` more.
    fn skip(&mut self, num_bytes: usize) {
        let passed = &self.source[self.at..self.at + num_bytes];
        self.line += passed.matches('\n').count() as u32;
        self.starts_line = passed.ends_with('\n');
        self.at += num_bytes;
    }

    fn push(&mut self, tok: Tok) {
        self.tokens.push(Token { line: self.line, tok });
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.skip_seen(rest.len() - trim_start(rest).len());
    }

    /// As skip, but nothing passed leaves what was read last.
    fn skip_seen(&mut self, num_bytes: usize) {
        if num_bytes > 0 {
            self.skip(num_bytes);
        }
    }

    /// The template's text and what stands in it.
    fn data(&mut self) -> Outcome<()> {
        loop {
            let rest = self.rest();
            let Some(begin) = begin_in(rest) else {
                if !rest.is_empty() {
                    self.push(Tok::Data(rest.into()));
                    self.skip(rest.len());
                }
                return Ok(());
            };
            let opener = &rest[begin..begin + 2];
            let sign = sign_of(&rest[begin + 2..]);
            let text = &rest[..begin];
            let kept = self.before_tag(text, sign, opener != "{{");
            if !kept.is_empty() {
                self.push(Tok::Data(kept.into()));
            }
            self.skip(begin);
            if opener == "{%" && self.raw(sign)? {
                continue;
            }
            self.skip(2 + sign.map_or(0, |_| 1));
            match opener {
                "{#" => self.comment()?,
                "{%" => self.tag(Tok::BlockBegin, Tok::BlockEnd)?,
                _ => self.tag(Tok::PrintBegin, Tok::PrintEnd)?,
            }
        }
    }

    /// What a tag leaves of the text before it.
    fn before_tag(
        &self,
        text: &'a str,
        sign: Option<char>,
        is_block: bool,
    ) -> &'a str {
        if sign == Some('-') {
            return trim_end(text);
        }
        if sign == Some('+') || !is_block {
            return text;
        }
        let line_at = text.rfind('\n').map_or(0, |at| at + 1);
        let blank = trim_start(&text[line_at..]).is_empty();
        if blank && (line_at > 0 || self.starts_line) {
            &text[..line_at]
        } else {
            text
        }
    }

    /// Behind a tag's closing `%}` or `#}`: trim_blocks.
    fn close(&mut self, sign: Option<char>) {
        match sign {
            Some('-') => self.skip_spaces(),
            Some('+') => (),
            _ if self.rest().starts_with('\n') => self.skip(1),
            _ => (),
        }
    }

    fn comment(&mut self) -> Outcome<()> {
        let rest = self.rest();
        let Some(end) = rest.find("#}") else {
            return wrong(self.line, "Missing end of comment tag");
        };
        let sign = rest[..end].chars().next_back();
        self.skip(end + 2);
        self.close(sign.filter(|sign| matches!(sign, '-' | '+')));
        Ok(())
    }

    /// `{% raw %}` up to its end; false where none begins here.
    fn raw(&mut self, sign: Option<char>) -> Outcome<bool> {
        let rest = self.rest();
        let behind = trim_start(&rest[2 + sign.map_or(0, |_| 1)..]);
        let Some(word) = behind.strip_prefix("raw").map(trim_start) else {
            return Ok(false);
        };
        let (strips, behind) = match word.strip_prefix("-%}") {
            Some(behind) => (true, behind),
            None => match word.strip_prefix("%}") {
                Some(behind) => (false, behind),
                None => return Ok(false),
            },
        };
        self.skip(rest.len() - behind.len());
        if strips {
            self.skip_spaces();
        }
        let content = self.rest();
        let Some(end) = raw_end(content) else {
            return wrong(self.line, "Missing end of raw directive");
        };
        let text = &content[..end.at];
        let kept = self.before_tag(text, end.sign, true);
        if !kept.is_empty() {
            self.push(Tok::Data(kept.into()));
        }
        self.skip(end.behind);
        self.close(end.last_sign);
        Ok(true)
    }

    /// The tokens between `begin`, which was read, and the tag's end.
    fn tag(&mut self, begin: Tok, end: Tok) -> Outcome<()> {
        self.push(begin);
        let mut open = Vec::new();
        loop {
            self.skip_spaces();
            if self.rest().is_empty() {
                return Ok(());
            }
            if open.is_empty() {
                let closer = if end == Tok::BlockEnd { "%}" } else { "}}" };
                if let Some(sign) = closing_sign(self.rest(), closer) {
                    self.push(end.clone());
                    self.skip(2 + sign.map_or(0, |_| 1));
                    match (sign, &end) {
                        (None, Tok::PrintEnd) => (),
                        _ => self.close(sign),
                    }
                    return Ok(());
                }
            }
            self.token(&mut open)?;
        }
    }

    fn token(&mut self, open: &mut Vec<char>) -> Outcome<()> {
        let rest = self.rest();
        let first = rest.chars().next().unwrap_or(' ');
        let after_dot = self.source[..self.at].ends_with('.');
        if let Some((tok, size)) = number_token(rest, after_dot) {
            let tok = tok.or_else(|what| wrong(self.line, what))?;
            self.push(tok);
            self.skip(size);
        } else if first.is_alphanumeric() || first == '_' {
            let size = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            if first.is_numeric() {
                return wrong(self.line, "Invalid character in identifier");
            }
            self.push(Tok::Name(rest[..size].into()));
            self.skip(size);
        } else if first == '\'' || first == '"' {
            self.string(first)?;
        } else {
            self.operator(first, open)?;
        }
        Ok(())
    }

    fn operator(&mut self, first: char, open: &mut Vec<char>) -> Outcome<()> {
        let rest = self.rest();
        let found = OPERATORS.iter().find(|op| rest.starts_with(**op));
        let Some(operator) = found.filter(|op| **op != "!") else {
            return wrong(
                self.line,
                format!("unexpected char '{first}' at {}", self.at),
            );
        };
        match first {
            '{' => open.push('}'),
            '(' => open.push(')'),
            '[' => open.push(']'),
            '}' | ')' | ']' => match open.pop() {
                None => {
                    return wrong(self.line, format!("unexpected '{first}'"))
                }
                Some(other) if other != first => {
                    return wrong(
                        self.line,
                        format!("unexpected '{first}', expected '{other}'"),
                    )
                }
                Some(_) => (),
            },
            _ => (),
        }
        self.push(Tok::Op(operator));
        self.skip(operator.len());
        Ok(())
    }

    fn string(&mut self, quote: char) -> Outcome<()> {
        let rest = self.rest();
        let mut escaped = false;
        for (at, c) in rest.char_indices().skip(1) {
            if escaped {
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c == quote {
                let text = unescaped(&rest[1..at])
                    .or_else(|what| wrong(self.line, what))?;
                self.push(Tok::Str(text));
                self.skip(at + 1);
                return Ok(());
            }
        }
        wrong(self.line, format!("unexpected char {quote:?} at {}", self.at))
    }
}

/// Where the first tag begins.
fn begin_in(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    (0..bytes.len().saturating_sub(1)).find(|&at| {
        bytes[at] == b'{' && matches!(bytes[at + 1], b'%' | b'{' | b'#')
    })
}

fn sign_of(text: &str) -> Option<char> {
    text.chars().next().filter(|c| matches!(c, '-' | '+'))
}

/// Some where the tag ends here; a print's end may have no "+".
fn closing_sign(text: &str, closer: &str) -> Option<Option<char>> {
    if text.starts_with(closer) {
        return Some(None);
    }
    let sign = sign_of(text)?;
    let may = sign == '-' || closer == "%}";
    (may && text[1..].starts_with(closer)).then_some(Some(sign))
}

struct RawEnd {
    at: usize,
    sign: Option<char>,
    behind: usize,
    last_sign: Option<char>,
}

fn raw_end(content: &str) -> Option<RawEnd> {
    let mut from = 0;
    while let Some(found) = content[from..].find("{%") {
        let at = from + found;
        let sign = sign_of(&content[at + 2..]);
        let inner = &content[at + 2 + sign.map_or(0, |_| 1)..];
        let word = trim_start(inner).strip_prefix("endraw").map(trim_start);
        if let Some(word) = word {
            if let Some(last_sign) = closing_sign(word, "%}") {
                let size = 2 + last_sign.map_or(0, |_| 1);
                let behind = content.len() - word.len() + size;
                return Some(RawEnd { at, sign, behind, last_sign });
            }
        }
        from = at + 2;
    }
    None
}

/// Python's escapes.
fn unescaped(text: &str) -> Result<String, String> {
    if !text.contains('\\') {
        return Ok(text.to_owned());
    }
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let Some(kind) = chars.next() else {
            return Err("\\ at end of string".to_owned());
        };
        let width = match kind {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        if width > 0 {
            let digits: String = chars.by_ref().take(width).collect();
            let code = u32::from_str_radix(&digits, 16).ok();
            let whole = digits.len() == width;
            let c = code.filter(|_| whole).and_then(char::from_u32);
            out.push(c.ok_or_else(|| {
                format!("\\{kind}{digits} is no character's code")
            })?);
            continue;
        }
        if let Some(first) = kind.to_digit(8) {
            let mut code = first;
            for _ in 0..2 {
                let Some(digit) = chars.peek().and_then(|c| c.to_digit(8))
                else {
                    break;
                };
                chars.next();
                code = code * 8 + digit;
            }
            out.extend(char::from_u32(code));
            continue;
        }
        match simple_escape(kind) {
            Some("") if kind == 'N' => {
                return Err("\\N is not known".to_owned())
            }
            Some(text) => out.push_str(text),
            None => out.extend(['\\', kind]),
        }
    }
    Ok(out)
}

fn simple_escape(kind: char) -> Option<&'static str> {
    Some(match kind {
        '\n' | 'N' => "",
        '\\' => "\\",
        '\'' => "'",
        '"' => "\"",
        'a' => "\x07",
        'b' => "\x08",
        'f' => "\x0c",
        'n' => "\n",
        'r' => "\r",
        't' => "\t",
        'v' => "\x0b",
        _ => return None,
    })
}
