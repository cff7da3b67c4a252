//! The functions that every template sees.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::CString;
use std::rc::Rc;

use super::arguments::{need_int, need_str, Arguments};
use super::dict::Dict;
use super::error::{raise, Outcome};
use super::items::iterate;
use super::run::{check_member, Render};
use super::value::{Cycler, Joiner, Range, Value};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Function {
    Range,
    Dict,
    Cycler,
    Joiner,
    Namespace,
    RaiseException,
    StrftimeNow,
}

/// As the sandbox.
const MAX_RANGE: usize = 100_000;

impl Function {
    pub fn globals() -> HashMap<Box<str>, Value> {
        [
            ("range", Function::Range),
            ("dict", Function::Dict),
            ("cycler", Function::Cycler),
            ("joiner", Function::Joiner),
            ("namespace", Function::Namespace),
            ("raise_exception", Function::RaiseException),
            ("strftime_now", Function::StrftimeNow),
        ]
        .into_iter()
        .map(|(name, function)| (name.into(), Value::Function(function)))
        .collect()
    }
}

pub fn call(
    render: &mut Render,
    function: Function,
    arguments: Arguments,
) -> Outcome<Value> {
    match function {
        Function::Range => range(arguments),
        Function::Dict => Ok(Value::Dict(Rc::new(dict(render, arguments)?))),
        Function::Cycler => {
            if !arguments.named.is_empty() {
                return raise("cycler() takes no keyword arguments");
            }
            if arguments.positional.is_empty() {
                return raise("at least one item has to be provided");
            }
            let items = arguments.positional;
            Ok(Value::Cycler(Rc::new(Cycler { items, at: Cell::new(0) })))
        }
        Function::Joiner => {
            let [separator] = arguments.bind("joiner", ["sep"], 0)?;
            let separator = separator.unwrap_or_else(|| Value::from(", "));
            let used = Cell::new(false);
            Ok(Value::Joiner(Rc::new(Joiner { separator, used })))
        }
        Function::Namespace => {
            let dict = dict(render, arguments)?;
            for (name, _) in dict.entries() {
                check_member(name.as_str().unwrap_or_default())?;
            }
            Ok(render.keep_namespace(dict))
        }
        Function::RaiseException => {
            let [message] =
                arguments.bind("raise_exception", ["message"], 1)?;
            let message = message.unwrap_or(Value::None);
            raise(render.str_of(&message)?)
        }
        Function::StrftimeNow => {
            let [format] = arguments.bind("strftime_now", ["format"], 1)?;
            let format = format.unwrap_or(Value::None);
            strftime(render.now_unix_s, need_str(&format)?).map(Value::from)
        }
    }
}

fn range(arguments: Arguments) -> Outcome<Value> {
    let bounds = arguments.only::<3>("range", 1)?;
    let bounds: Vec<i128> =
        bounds.iter().flatten().map(need_int).collect::<Outcome<_>>()?;
    let (start, stop) = match bounds[..] {
        [stop] => (0, stop),
        _ => (bounds[0], bounds[1]),
    };
    let step = bounds.get(2).copied().unwrap_or(1);
    if step == 0 {
        return raise("range() arg 3 must not be zero");
    }
    const MOST: i128 = i64::MAX as i128;
    if [start, stop, step].iter().any(|n| n.abs() > MOST) {
        return raise("range() arguments must have at most 64 bits");
    }
    let range = Range { start, stop, step };
    if range.len() > MAX_RANGE {
        return raise(format!(
            "Range too big. The sandbox blocks ranges larger than MAX_RANGE \
             ({MAX_RANGE})."
        ));
    }
    Ok(Value::Range(range))
}

/// dict(...): of a mapping or of pairs, and of names.
fn dict(render: &mut Render, arguments: Arguments) -> Outcome<Dict> {
    let Arguments { positional, named } = arguments;
    if positional.len() > 1 {
        return raise(format!(
            "dict expected at most 1 argument, got {}",
            positional.len()
        ));
    }
    let mut dict = Dict::default();
    match positional.first() {
        None => (),
        Some(Value::Dict(other)) => {
            for (key, value) in other.entries() {
                dict.insert(key.clone(), value.clone())?;
            }
        }
        Some(pairs) => {
            let mut pairs = iterate(pairs)?;
            while let Some(pair) = pairs.next(render)? {
                let pair = render.listed(&pair)?;
                let [key, value] = &pair[..] else {
                    return raise(format!(
                        "dictionary update sequence element has length {}; 2 \
                         is required",
                        pair.len()
                    ));
                };
                dict.insert(key.clone(), value.clone())?;
            }
        }
    }
    for (name, value) in named {
        dict.insert(Value::text(&name), value)?;
    }
    Ok(dict)
}

/// dict.fromkeys(keys, value)
pub fn dict_from_keys(
    render: &mut Render,
    arguments: Arguments,
) -> Outcome<Value> {
    let [keys, value] = arguments.only::<2>("fromkeys", 1)?;
    let mut keys = iterate(&keys.unwrap_or(Value::None))?;
    let value = value.unwrap_or(Value::None);
    let mut dict = Dict::default();
    while let Some(key) = keys.next(render)? {
        dict.insert(key, value.clone())?;
    }
    Ok(Value::Dict(Rc::new(dict)))
}

/// Local time, formatted as by C's strftime.
fn strftime(unix_s: i64, format: &str) -> Outcome<String> {
    // A leading character tells an empty result from a full buffer.
    let Ok(format) = CString::new(format!(".{format}")) else {
        return raise("strftime_now: format holds a NUL");
    };
    let mut out = [0_u8; 1024];
    // SAFETY: localtime_r and strftime write into what they are given, which
    // outlives the calls, and no more than the size they are told.
    let size = unsafe {
        let mut parts = std::mem::zeroed::<libc::tm>();
        if libc::localtime_r(&unix_s, &mut parts).is_null() {
            return raise("strftime_now: no local time");
        }
        libc::strftime(
            out.as_mut_ptr().cast(),
            out.len(),
            format.as_ptr(),
            &parts,
        )
    };
    if size == 0 {
        return raise("strftime_now: result must be shorter than 1023 bytes");
    }
    Ok(String::from_utf8_lossy(&out[1..size]).into_owned())
}
