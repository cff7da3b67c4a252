//! Tokens <0x00> to <0xFF> on their way to text.

/// The byte that a token of ByteFallback stands for.
pub fn fallback_byte(token: &str) -> Option<u8> {
    if token.len() != 6 || !token.starts_with("<0x") || !token.ends_with('>') {
        return None;
    }
    u8::from_str_radix(&token[3..5], 16).ok()
}

/// The bytes of a run of such tokens, which other tokens end.
#[derive(Clone)]
pub struct ByteRun {
    bytes: Vec<u8>,
    by_character: bool,
    /// Of a run that is held back whole: what is known of it.
    num_checked: usize,
    broken: bool,
}

impl ByteRun {
    /// `by_character`: each character is emitted with its last byte, and a byte
    /// that belongs to none is a replacement character, as SentencePiece has
    /// it. Else, as the crate has it, a run is one string if all of it is
    /// UTF-8, and a replacement character for every byte if it is not: one that
    /// may still be valid is held back.
    pub fn new(by_character: bool) -> Self {
        ByteRun {
            bytes: Vec::new(),
            by_character,
            num_checked: 0,
            broken: false,
        }
    }

    pub fn by_character(&self) -> bool {
        self.by_character
    }

    pub fn push(&mut self, token: String, out: &mut Vec<String>) {
        let Some(byte) = fallback_byte(&token) else {
            self.end(out);
            out.push(token);
            return;
        };
        if self.broken {
            out.push(char::REPLACEMENT_CHARACTER.into());
            return;
        }
        self.bytes.push(byte);
        if self.by_character {
            self.emit_characters(out);
        } else {
            self.check();
            if self.broken {
                self.replace_bytes(out);
            }
        }
    }

    pub fn end(&mut self, out: &mut Vec<String>) {
        let is_whole = !self.by_character
            && !self.bytes.is_empty()
            && self.num_checked == self.bytes.len();
        if is_whole {
            let bytes = std::mem::take(&mut self.bytes);
            out.push(String::from_utf8(bytes).expect("checked byte by byte"));
        } else {
            self.replace_bytes(out);
        }
        *self = ByteRun::new(self.by_character);
    }

    /// At most the beginning of a character is left.
    fn emit_characters(&mut self, out: &mut Vec<String>) {
        while !self.bytes.is_empty() {
            let (num_valid, is_open) = match std::str::from_utf8(&self.bytes) {
                Ok(_) => (self.bytes.len(), true),
                Err(error) => {
                    (error.valid_up_to(), error.error_len().is_none())
                }
            };
            if num_valid > 0 {
                let valid = self.bytes.drain(..num_valid).collect();
                out.push(String::from_utf8(valid).expect("checked above"));
            }
            if is_open {
                return;
            }
            self.bytes.remove(0);
            out.push(char::REPLACEMENT_CHARACTER.into());
        }
    }

    fn check(&mut self) {
        match std::str::from_utf8(&self.bytes[self.num_checked..]) {
            Ok(_) => self.num_checked = self.bytes.len(),
            Err(error) => {
                self.num_checked += error.valid_up_to();
                self.broken = error.error_len().is_some();
            }
        }
    }

    fn replace_bytes(&mut self, out: &mut Vec<String>) {
        for _ in self.bytes.drain(..) {
            out.push(char::REPLACEMENT_CHARACTER.into());
        }
    }
}
