//! The filter wordwrap: Python's textwrap, each line for itself.

use super::arguments::{flag_or, int_or, Arguments};
use super::error::{raise, Outcome};
use super::run::Render;
use super::str_search::lines;
use super::value::{Text, Value};

pub fn wrapped(
    render: &mut Render,
    text: &Text,
    arguments: Arguments,
) -> Outcome<Value> {
    let [width, breaks, by, hyphens] = arguments.bind(
        "wordwrap",
        ["width", "break_long_words", "wrapstring", "break_on_hyphens"],
        0,
    )?;
    let width = int_or(width, 79)?;
    if width <= 0 {
        return raise(format!("invalid width {width} (must be > 0)"));
    }
    let width = usize::try_from(width).unwrap_or(usize::MAX);
    let breaks = flag_or(breaks, true);
    let hyphens = flag_or(hyphens, true);
    let by = match &by {
        None | Some(Value::None) => "\n",
        Some(by) => super::arguments::need_str(by)?,
    };
    let mut out = Vec::new();
    for line in lines(text.as_str(), false) {
        render.step(line.len() as u64)?;
        let pieces = pieces(line, hyphens);
        out.push(filled(pieces, width, breaks).join(by));
    }
    Ok(Value::Str(Text::new(&out.join(by), text.safe)))
}

fn is_blank(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\x0b' | '\x0c' | '\r' | ' ')
}

/// Words and what is between them; a word may end in its hyphen.
fn pieces(line: &str, hyphens: bool) -> Vec<String> {
    let chars: Vec<char> = line.chars().collect();
    let mut pieces: Vec<String> = Vec::new();
    let mut piece = String::new();
    for (i, c) in chars.iter().enumerate() {
        let last = piece.chars().last();
        if last.is_some_and(|last| is_blank(last) != is_blank(*c)) {
            pieces.push(std::mem::take(&mut piece));
        }
        piece.push(*c);
        let is_letter = |at: Option<usize>| {
            at.and_then(|at| chars.get(at)).is_some_and(|c| c.is_alphabetic())
        };
        let between = is_letter(i.checked_sub(1))
            && is_letter(i.checked_sub(2))
            && is_letter(Some(i + 1))
            && is_letter(Some(i + 2));
        if hyphens && *c == '-' && between {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

fn filled(mut pieces: Vec<String>, width: usize, breaks: bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    pieces.reverse();
    let len = |piece: &str| piece.chars().count();
    while let Some(piece) = pieces.last() {
        if piece.trim_matches(is_blank).is_empty() && !lines.is_empty() {
            pieces.pop();
            continue;
        }
        let (mut line, mut used) = (Vec::new(), 0);
        while let Some(piece) = pieces.pop_if(|p| used + len(p) <= width) {
            used += len(&piece);
            line.push(piece);
        }
        if pieces.last().is_some_and(|piece| len(piece) > width) {
            if let Some(long) = pieces.pop() {
                if breaks {
                    let room = (width - used).max(usize::from(width == 1));
                    let cut = long.char_indices().nth(room);
                    let at = cut.map_or(long.len(), |(at, _)| at);
                    line.push(long[..at].to_owned());
                    pieces.push(long[at..].to_owned());
                } else if line.is_empty() {
                    line.push(long);
                } else {
                    pieces.push(long);
                }
            }
        }
        let is_space = |p: &String| p.trim_matches(is_blank).is_empty();
        if line.last().is_some_and(is_space) {
            line.pop();
        }
        if !line.is_empty() {
            lines.push(line.concat());
        }
    }
    lines
}
