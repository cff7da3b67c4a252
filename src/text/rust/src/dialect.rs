//! The Jinja that chat templates are written in: Python's, as Hugging Face
//! transformers sets it up (utils/chat_template_utils.py).

use std::ffi::CString;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{from_args, Kwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

use crate::python_json;

pub fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    environment.set_syntax(syntax.build().expect("the standard delimiters"));
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(method);
    environment.add_filter("tojson", tojson);
    environment.add_function("raise_exception", raise_exception);
    minijinja_contrib::add_to_environment(&mut environment);
    environment
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

fn tojson(value: &Value, kwargs: Kwargs) -> Result<Value, Error> {
    let style = python_json::Style {
        ensure_ascii: kwargs
            .get::<Option<bool>>("ensure_ascii")?
            .unwrap_or(false),
        indent: kwargs.get("indent")?,
        separators: kwargs
            .get::<Option<Vec<String>>>("separators")?
            .map(|pair| {
                <[String; 2]>::try_from(pair).map_err(|_| separators_error())
            })
            .transpose()?,
        sort_keys: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    kwargs.assert_all_used()?;
    python_json::dump(value, &style).map(Value::from)
}

fn separators_error() -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        "tojson: separators must be two strings",
    )
}

/// Local time, formatted as by C's strftime: the function strftime_now.
pub fn strftime(unix_s: i64, format: &str) -> Result<String, Error> {
    let bad = |what| {
        Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {what}"))
    };
    // A leading character tells an empty result from a full buffer.
    let format = CString::new(format!(".{format}"))
        .map_err(|_| bad("format holds a NUL"))?;
    let mut out = [0_u8; 1024];
    // SAFETY: localtime_r and strftime write into what they are given, which
    // outlives the calls, and no more than the size they are told.
    let size = unsafe {
        let mut parts = std::mem::zeroed::<libc::tm>();
        if libc::localtime_r(&unix_s, &mut parts).is_null() {
            return Err(bad("no local time"));
        }
        libc::strftime(
            out.as_mut_ptr().cast(),
            out.len(),
            format.as_ptr(),
            &parts,
        )
    };
    if size == 0 {
        return Err(bad("result must be shorter than 1023 bytes"));
    }
    Ok(String::from_utf8_lossy(&out[1..size]).into_owned())
}

/// Methods of Python's str and dict that minijinja-contrib leaves out.
fn method(
    state: &mut State,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return unknown_method_callback(state, value, name, args);
    };
    match name {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text)))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text)))
        }
        "partition" => {
            let (separator,): (&str,) = from_args(args)?;
            let (before, after) =
                text.split_once(separator).unwrap_or((text, ""));
            Ok(parted(text, separator, before, after))
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let (before, after) =
                text.rsplit_once(separator).unwrap_or(("", text));
            Ok(parted(text, separator, before, after))
        }
        "rsplit" => {
            let (separator, most): (&str, Option<usize>) = from_args(args)?;
            let most = most.map_or(usize::MAX, |n| n.saturating_add(1));
            let mut parts: Vec<&str> = text.rsplitn(most, separator).collect();
            parts.reverse();
            Ok(parts.into_iter().map(Value::from).collect())
        }
        _ => unknown_method_callback(state, value, name, args),
    }
}

fn parted(text: &str, separator: &str, before: &str, after: &str) -> Value {
    let middle = if text.contains(separator) { separator } else { "" };
    [before, middle, after].into_iter().map(Value::from).collect()
}

/// `{% generation %}` marks what a trainer counts; here it only opens a scope,
/// as `{% with %}` does, and minijinja does not know it.
pub fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start + 2);
        out.push_str(before);
        let word_at =
            tag.find(|c: char| !matches!(c, '-' | '+') && !c.is_whitespace());
        let (lead, body) = tag.split_at(word_at.unwrap_or(tag.len()));
        let word_end = body.find(|c: char| !c.is_alphanumeric() && c != '_');
        let (word, after) = body.split_at(word_end.unwrap_or(body.len()));
        out.push_str(lead);
        out.push_str(match word {
            "generation" => "with",
            "endgeneration" => "endwith",
            other => other,
        });
        rest = after;
    }
    out + rest
}
