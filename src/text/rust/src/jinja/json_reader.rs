//! JSON as Python's json.loads reads it: order kept, ints whole.

use std::rc::Rc;

use super::dict::Dict;
use super::error::{Error, Kind, Outcome};
use super::value::Value;

const MAX_DEPTH: usize = 512;

pub fn read(text: &str) -> Outcome<Value> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = reader.value()?;
    reader.blanks();
    match reader.peek() {
        None => Ok(value),
        Some(_) => reader.fail("nothing more"),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn fail<T>(&self, wanted: &str) -> Outcome<T> {
        let at = self.at;
        Err(Error::new(
            Kind::Syntax,
            format!("no JSON: expected {wanted} at byte {at}"),
        ))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn skip(&mut self, byte: u8) -> bool {
        self.blanks();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self) -> Outcome<Value> {
        self.blanks();
        if self.depth >= MAX_DEPTH {
            return self.fail(&format!("at most {MAX_DEPTH} levels"));
        }
        self.depth += 1;
        let value = match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => self.string().map(Value::from),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::None),
            _ => self.number(),
        };
        self.depth -= 1;
        value
    }

    fn word(&mut self, word: &str, value: Value) -> Outcome<Value> {
        if !self.text[self.at..].starts_with(word) {
            return self.fail(word);
        }
        self.at += word.len();
        Ok(value)
    }

    fn object(&mut self) -> Outcome<Value> {
        self.at += 1;
        let mut dict = Dict::default();
        if self.skip(b'}') {
            return Ok(Value::Dict(Rc::new(dict)));
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return self.fail("a name");
            }
            let name = self.string()?;
            if !self.skip(b':') {
                return self.fail("':'");
            }
            let value = self.value()?;
            dict.insert(Value::from(name), value)?;
            if self.skip(b'}') {
                return Ok(Value::Dict(Rc::new(dict)));
            }
            if !self.skip(b',') {
                return self.fail("',' or '}'");
            }
        }
    }

    fn array(&mut self) -> Outcome<Value> {
        self.at += 1;
        let mut items = Vec::new();
        if self.skip(b']') {
            return Ok(Value::list(items));
        }
        loop {
            items.push(self.value()?);
            if self.skip(b']') {
                return Ok(Value::list(items));
            }
            if !self.skip(b',') {
                return self.fail("',' or ']'");
            }
        }
    }

    fn number(&mut self) -> Outcome<Value> {
        let rest = &self.text[self.at..];
        let size = rest
            .find(|c: char| {
                !c.is_ascii_digit() && !matches!(c, '+' | '-' | '.' | 'e' | 'E')
            })
            .unwrap_or(rest.len());
        let text = &rest[..size];
        let digits = text.strip_prefix('-').unwrap_or(text);
        if !digits.starts_with(|c: char| c.is_ascii_digit()) {
            return self.fail("a value");
        }
        let whole = text.parse().map(Value::Int);
        let value = match whole {
            Ok(value) => value,
            Err(_) => match text.parse() {
                Ok(float) => Value::Float(float),
                Err(_) => return self.fail("a number"),
            },
        };
        self.at += size;
        Ok(value)
    }

    fn string(&mut self) -> Outcome<String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(size) = rest.find(['"', '\\']) else {
                return self.fail("'\"'");
            };
            out.push_str(&rest[..size]);
            self.at += size + 1;
            if rest.as_bytes()[size] == b'"' {
                return Ok(out);
            }
            let kind = self.peek();
            self.at += usize::from(kind.is_some_and(|b| b.is_ascii()));
            out.push(match kind {
                Some(b'n') => '\n',
                Some(b't') => '\t',
                Some(b'r') => '\r',
                Some(b'b') => '\u{8}',
                Some(b'f') => '\u{c}',
                Some(b'u') => self.unicode()?,
                Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
                _ => return self.fail("an escape"),
            });
        }
    }

    fn unit(&mut self) -> Outcome<u32> {
        let digits = self.text.get(self.at..self.at + 4);
        let unit = digits.and_then(|d| u32::from_str_radix(d, 16).ok());
        match unit {
            Some(unit) => {
                self.at += 4;
                Ok(unit)
            }
            None => self.fail("four hexadecimal digits"),
        }
    }

    fn unicode(&mut self) -> Outcome<char> {
        let high = self.unit()?;
        if !(0xd800..0xdc00).contains(&high) {
            return char::from_u32(high)
                .map_or_else(|| self.fail("a whole character"), Ok);
        }
        if !self.text[self.at..].starts_with("\\u") {
            return self.fail("a second surrogate");
        }
        self.at += 2;
        let low = self.unit()?;
        if !(0xdc00..0xe000).contains(&low) {
            return self.fail("a second surrogate");
        }
        let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        char::from_u32(code).map_or_else(|| self.fail("a character"), Ok)
    }
}
