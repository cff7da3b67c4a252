//! What Python's str knows of characters.

use unicode_categories::UnicodeCategories;

pub fn chars_of(text: &str) -> usize {
    text.chars().count()
}

/// str.isspace, which knows four separators more than Unicode's White_Space.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

pub fn trim_start(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

pub fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

pub fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic()
        || (c.is_alphabetic()
            && !c.is_ascii()
            && !c.is_mark()
            && !c.is_number_letter()
            && !c.is_symbol_other())
}

/// The value of a decimal digit of any script: their tens stand together.
pub fn decimal_value(c: char) -> Option<u32> {
    if c.is_ascii() {
        return c.to_digit(10);
    }
    if !c.is_number_decimal_digit() {
        return None;
    }
    let code = u32::from(c);
    // Mathematical digits: five tens from a place that is no multiple.
    if (0x1d7ce..=0x1d7ff).contains(&code) {
        return Some((code - 0x1d7ce) % 10);
    }
    let is_digit = |code| {
        char::from_u32(code).is_some_and(|c| c.is_number_decimal_digit())
    };
    (0..10).find(|back| !is_digit(code - back - 1))
}

pub fn is_digit(c: char) -> bool {
    decimal_value(c).is_some()
        || matches!(c,
            '\u{b2}' | '\u{b3}' | '\u{b9}' | '\u{1369}'..='\u{1371}'
            | '\u{19da}' | '\u{2070}' | '\u{2074}'..='\u{2079}'
            | '\u{2080}'..='\u{2089}' | '\u{2460}'..='\u{2468}'
            | '\u{2474}'..='\u{247c}' | '\u{2488}'..='\u{2490}'
            | '\u{24ea}' | '\u{24f5}'..='\u{24fd}' | '\u{24ff}'
            | '\u{2776}'..='\u{277e}' | '\u{2780}'..='\u{2788}'
            | '\u{278a}'..='\u{2792}')
}

/// The ideographs that are numbers.
const NUMBERS: &str = "㐅㒃㠪㭍一七万三九二五亖亿什仟仨伍佰億兆兩八六十千卄卅\
    卌叁参參叄四壱壹幺廾廿弌弍弎弐拾捌柒漆玖百肆萬貮貳贰阡陆陌陸零";

pub fn is_numeric(c: char) -> bool {
    c.is_numeric() || is_digit(c) || NUMBERS.contains(c)
}

/// What a regular expression's \w takes.
pub fn is_word(c: char) -> bool {
    c == '_' || is_letter(c) || is_numeric(c)
}

pub fn is_cased(c: char) -> bool {
    c.is_lowercase() || c.is_uppercase() || is_title(c)
}

fn is_title(c: char) -> bool {
    matches!(c, '\u{1c5}' | '\u{1c8}' | '\u{1cb}' | '\u{1f2}'
        | '\u{1f88}'..='\u{1f8f}' | '\u{1f98}'..='\u{1f9f}'
        | '\u{1fa8}'..='\u{1faf}' | '\u{1fbc}' | '\u{1fcc}' | '\u{1ffc}')
}

/// Whether repr shows the character as it is.
pub fn is_printable(c: char) -> bool {
    if c == ' ' || c.is_ascii_graphic() {
        return true;
    }
    let is_format = matches!(c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
        | '\u{890}' | '\u{891}' | '\u{8e2}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
        | '\u{205f}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
        | '\u{fffe}' | '\u{ffff}' | '\u{110bd}' | '\u{110cd}'
        | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e00ff}');
    let is_private = matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..);
    !c.is_control() && !c.is_whitespace() && !is_format && !is_private
}

/// A word's first character.
fn push_title(out: &mut String, c: char) {
    match c {
        '\u{1c4}'..='\u{1c6}' => out.push('\u{1c5}'),
        '\u{1c7}'..='\u{1c9}' => out.push('\u{1c8}'),
        '\u{1ca}'..='\u{1cc}' => out.push('\u{1cb}'),
        '\u{1f1}'..='\u{1f3}' => out.push('\u{1f2}'),
        '\u{10d0}'..='\u{10ff}' => out.push(c),
        _ => {
            let mut upper = c.to_uppercase();
            out.extend(upper.next());
            out.extend(upper.flat_map(char::to_lowercase));
        }
    }
}

pub fn capitalized(text: &str) -> String {
    let mut out = String::new();
    if let Some(first) = text.chars().next() {
        push_title(&mut out, first);
        // Lowered in its place, for a sigma's sake.
        let lower = text.to_lowercase();
        let skipped: usize = first.to_lowercase().map(char::len_utf8).sum();
        out.push_str(&lower[skipped..]);
    }
    out
}

pub fn titled(text: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    let mut word = String::new();
    for c in text.chars() {
        if is_cased(c) {
            if inside {
                word.push(c);
            } else {
                push_title(&mut out, c);
            }
            inside = true;
        } else {
            out.push_str(&word.to_lowercase());
            word.clear();
            inside = false;
            out.push(c);
        }
    }
    out + &word.to_lowercase()
}

pub fn swapped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_uppercase() {
            out.extend(c.to_lowercase());
        } else if c.is_lowercase() {
            out.extend(c.to_uppercase());
        } else {
            out.push(c);
        }
    }
    out
}

pub fn folded(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\u{131}' | '\u{13a0}'..='\u{13f5}' => out.push(c),
            '\u{ab70}'..='\u{abbf}' | '\u{13f8}'..='\u{13fd}' => {
                out.extend(c.to_uppercase())
            }
            '\u{130}' => out.extend(c.to_lowercase()),
            _ => out.extend(
                c.to_lowercase()
                    .flat_map(char::to_uppercase)
                    .flat_map(char::to_lowercase),
            ),
        }
    }
    out
}

/// Whether no cased character is in the wrong case, and one is there.
pub fn is_all(text: &str, wrong: impl Fn(char) -> bool) -> bool {
    text.chars().any(is_cased) && !text.chars().any(|c| wrong(c) || is_title(c))
}

pub fn is_titled(text: &str) -> bool {
    let (mut any, mut inside) = (false, false);
    for c in text.chars() {
        if c.is_uppercase() || is_title(c) {
            if inside {
                return false;
            }
            (any, inside) = (true, true);
        } else if c.is_lowercase() {
            if !inside {
                return false;
            }
            any = true;
        } else {
            inside = false;
        }
    }
    any
}
