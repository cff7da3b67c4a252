//! The methods of Python's types, and which of them the sandbox lets through.

use std::rc::Rc;

use super::arguments::{int_or, need_int, Arguments};
use super::compare::{equal, same};
use super::dict::Dict;
use super::error::{raise, Outcome};
use super::functions::{dict_from_keys, Function};
use super::loops::LOOP_METHODS;
use super::run::Render;
use super::str_methods;
use super::value::{Value, View};

const DICT: [&str; 6] = ["get", "items", "keys", "values", "copy", "fromkeys"];
const DICT_UNSAFE: [&str; 5] =
    ["clear", "pop", "popitem", "setdefault", "update"];
const LIST: [&str; 3] = ["count", "index", "copy"];
const LIST_UNSAFE: [&str; 8] =
    ["append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"];
const TUPLE: [&str; 2] = ["count", "index"];
const INT: [&str; 4] =
    ["bit_length", "bit_count", "conjugate", "as_integer_ratio"];
const FLOAT: [&str; 2] = ["is_integer", "conjugate"];
const CYCLER: [&str; 2] = ["next", "reset"];

/// The method's name for ever, and whether it may be called.
pub fn method_of(value: &Value, name: &str) -> Option<(&'static str, bool)> {
    let find = |names: &'static [&'static str]| {
        names.iter().copied().find(|known| *known == name)
    };
    let (safe, refused): (&'static [&'static str], &'static [&'static str]) =
        match value {
            Value::Str(_) => (&str_methods::NAMES, &[]),
            Value::Dict(_) => (&DICT, &DICT_UNSAFE),
            Value::List(_) => (&LIST, &LIST_UNSAFE),
            Value::Tuple(_) | Value::Group(_) | Value::Range(_) => {
                (&TUPLE, &[])
            }
            Value::Int(_) | Value::Bool(_) => (&INT, &[]),
            Value::Float(_) => (&FLOAT, &[]),
            Value::Loop(_) => (&LOOP_METHODS, &[]),
            Value::Cycler(_) => (&CYCLER, &[]),
            Value::Function(Function::Dict) => (&["fromkeys"], &[]),
            _ => (&[], &[]),
        };
    find(safe)
        .map(|name| (name, true))
        .or_else(|| find(refused).map(|name| (name, false)))
}

pub fn call(
    render: &mut Render,
    value: &Value,
    name: &'static str,
    arguments: Arguments,
) -> Outcome<Value> {
    match value {
        Value::Str(text) => str_methods::call(render, text, name, arguments),
        Value::Dict(dict) => dict_method(render, dict, name, arguments),
        Value::Function(_) => dict_from_keys(render, arguments),
        Value::List(_)
        | Value::Tuple(_)
        | Value::Group(_)
        | Value::Range(_) => sequence_method(render, value, name, arguments),
        Value::Int(_) | Value::Bool(_) => {
            arguments.none(name)?;
            Ok(int_method(value.as_int().unwrap_or(0), name))
        }
        Value::Float(number) => {
            arguments.none(name)?;
            Ok(match name {
                "is_integer" => Value::Bool(number.fract() == 0.0),
                _ => value.clone(),
            })
        }
        Value::Loop(state) => state.call_method(name, arguments),
        Value::Cycler(cycler) => {
            arguments.none(name)?;
            let at = cycler.at.get();
            if name == "reset" {
                cycler.at.set(0);
                return Ok(Value::None);
            }
            cycler.at.set((at + 1) % cycler.items.len());
            Ok(cycler.items[at].clone())
        }
        other => raise(format!(
            "'{}' object has no method {name}",
            other.type_name()
        )),
    }
}

fn int_method(number: i128, name: &str) -> Value {
    let size = number.unsigned_abs();
    match name {
        "bit_length" => Value::Int(i128::from(128 - size.leading_zeros())),
        "bit_count" => Value::Int(i128::from(size.count_ones())),
        "as_integer_ratio" => {
            Value::tuple(vec![Value::Int(number), Value::Int(1)])
        }
        _ => Value::Int(number),
    }
}

fn dict_method(
    render: &mut Render,
    dict: &Rc<Dict>,
    name: &str,
    arguments: Arguments,
) -> Outcome<Value> {
    let view = match name {
        "get" => {
            let [key, otherwise] = arguments.only::<2>("get", 1)?;
            let found = dict.get(&key.unwrap_or(Value::None))?.cloned();
            return Ok(found.or(otherwise).unwrap_or(Value::None));
        }
        "fromkeys" => return dict_from_keys(render, arguments),
        "keys" => Some(View::Keys),
        "values" => Some(View::Values),
        "items" => Some(View::Pairs),
        _ => None,
    };
    arguments.none(name)?;
    Ok(match view {
        Some(view) => Value::View(dict.clone(), view),
        None => Value::Dict(Rc::new(Dict::of(dict.entries().to_vec())?)),
    })
}

fn sequence_method(
    render: &mut Render,
    value: &Value,
    name: &str,
    arguments: Arguments,
) -> Outcome<Value> {
    let items = render.listed(value)?;
    render.step(items.len() as u64)?;
    match name {
        "copy" => {
            arguments.none(name)?;
            Ok(Value::list(items.to_vec()))
        }
        "count" => {
            let [item] = arguments.only::<1>(name, 1)?;
            let item = item.unwrap_or(Value::None);
            let mut count = 0;
            for other in items.iter() {
                count +=
                    usize::from(same(other, &item) || equal(other, &item)?);
            }
            Ok(Value::count(count))
        }
        _ => {
            let [item, from, to] = arguments.only::<3>(name, 1)?;
            let item = item.unwrap_or(Value::None);
            if let Some(from) = &from {
                need_int(from)?;
            }
            let len = items.len() as i128;
            let place = |at: i128| {
                (if at < 0 { at.saturating_add(len) } else { at }).clamp(0, len)
            };
            let from = place(int_or(from, 0)?) as usize;
            let to = place(int_or(to, len)?) as usize;
            for at in from..to {
                if same(&items[at], &item) || equal(&items[at], &item)? {
                    return Ok(Value::count(at));
                }
            }
            let item = render.repr_of(&item)?;
            raise(format!("{item} is not in {}", value.type_name()))
        }
    }
}
