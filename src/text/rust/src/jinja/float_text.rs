//! Floats as Python prints them.

/// The shortest digits that give the float again and its decimal exponent.
fn shortest(float: f64) -> (String, i32) {
    let text = format!("{:e}", float.abs());
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (digits.replace('.', ""), exponent.parse().unwrap_or(0))
}

pub fn special(float: f64) -> Option<&'static str> {
    if float.is_nan() {
        Some("nan")
    } else if float.is_infinite() {
        Some(if float > 0.0 { "inf" } else { "-inf" })
    } else {
        None
    }
}

/// repr(float)
pub fn float_repr(float: f64) -> String {
    if let Some(name) = special(float) {
        return name.to_owned();
    }
    let (digits, exponent) = shortest(float);
    let sign = if float.is_sign_negative() { "-" } else { "" };
    if (-4..16).contains(&exponent) {
        let plain = float.abs().to_string();
        let point = if plain.contains('.') { "" } else { ".0" };
        return format!("{sign}{plain}{point}");
    }
    let (first, more) = digits.split_at(1);
    let point = if more.is_empty() { "" } else { "." };
    format!("{sign}{first}{point}{more}e{}", exponent_text(exponent))
}

fn exponent_text(exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{:02}", exponent.abs())
}

/// The format "e": `float` is finite and not negative.
pub fn scientific(float: f64, precision: usize, alternate: bool) -> String {
    let text = format!("{float:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let point = if alternate && precision == 0 { "." } else { "" };
    let exponent = exponent.parse().unwrap_or(0);
    format!("{digits}{point}e{}", exponent_text(exponent))
}

/// The format "g": `float` is finite and not negative.
pub fn general(float: f64, precision: usize, alternate: bool) -> String {
    let precision = precision.max(1);
    let text = format!("{float:.*e}", precision - 1);
    let exponent: i32 =
        text.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let plain = exponent >= -4 && exponent < precision as i32;
    let written = if plain {
        let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
        format!("{float:.decimals$}")
    } else {
        scientific(float, precision - 1, false)
    };
    if alternate {
        return written;
    }
    let (digits, tail) = match written.split_once('e') {
        Some((digits, exponent)) => (digits, format!("e{exponent}")),
        None => (written.as_str(), String::new()),
    };
    let digits = if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    };
    format!("{digits}{tail}")
}
