//! Byte-level tokens: one character of the token stands for one byte.

use std::sync::LazyLock;

/// The alphabet of GPT-2's byte-level BPE (Radford et al. 2019, encoder.py):
/// bytes that are printable in Latin-1 stand for themselves, the others, in
/// order, for the characters from U+0100 on.
static CHAR_TO_BYTE: LazyLock<[Option<u8>; 0x144]> = LazyLock::new(|| {
    let mut table = [None; 0x144];
    let mut next = 0x100;
    for byte in 0..=255_u8 {
        let printable = matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
        if printable {
            table[usize::from(byte)] = Some(byte);
        } else {
            table[next] = Some(byte);
            next += 1;
        }
    }
    table
});

/// The bytes that `token` spells; its own UTF-8 where it holds a character
/// outside the alphabet (an added token).
pub fn token_bytes(token: &str) -> Vec<u8> {
    token
        .chars()
        .map(|c| CHAR_TO_BYTE.get(c as usize).copied().flatten())
        .collect::<Option<Vec<u8>>>()
        .unwrap_or_else(|| token.as_bytes().to_vec())
}

/// The character that stands for `byte`.
pub fn byte_char(byte: u8) -> char {
    CHAR_TO_BYTE
        .iter()
        .zip('\0'..)
        .find_map(|(of, c)| (*of == Some(byte)).then_some(c))
        .expect("the alphabet has every byte")
}

/// String::from_utf8_lossy for bytes that arrive in pieces.
#[derive(Clone, Default)]
pub struct LossyUtf8 {
    /// The beginning of a character: at most three bytes.
    pending: Vec<u8>,
}

impl LossyUtf8 {
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut out = String::with_capacity(self.pending.len());
        let mut num_done = 0;
        for chunk in self.pending.utf8_chunks() {
            out.push_str(chunk.valid());
            num_done += chunk.valid().len();
            let invalid = chunk.invalid();
            let open = num_done + invalid.len() == self.pending.len()
                && may_continue(invalid);
            if !invalid.is_empty() && !open {
                out.push(char::REPLACEMENT_CHARACTER);
                num_done += invalid.len();
            }
        }
        self.pending.drain(..num_done);
        out
    }

    pub fn finish(&mut self) -> String {
        let rest = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        rest
    }
}

/// Whether `bytes` begin a character that further bytes can complete.
fn may_continue(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}
