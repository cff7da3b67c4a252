//! == < in

use std::cmp::Ordering;
use std::rc::Rc;

use super::arithmetic::as_float;
use super::dict::Dict;
use super::error::{raise, Outcome};
use super::items::iterate;
use super::run::Render;
use super::syntax::Comparison;
use super::value::{Value, View};

/// Deeper values than these are compared and shown by no template.
pub const MAX_DEPTH: usize = 1000;

pub fn too_deep<T>() -> Outcome<T> {
    raise("maximum recursion depth exceeded")
}

pub fn equal(left: &Value, right: &Value) -> Outcome<bool> {
    equal_at(left, right, 0)
}

fn equal_at(left: &Value, right: &Value, depth: usize) -> Outcome<bool> {
    if depth > MAX_DEPTH {
        return too_deep();
    }
    if let Some(order) = by_number(left, right) {
        return Ok(order == Some(Ordering::Equal));
    }
    Ok(match (left, right) {
        (Value::Undefined(_), Value::Undefined(_)) => true,
        (Value::None, Value::None) => true,
        (Value::Str(left), Value::Str(right)) => {
            left.as_str() == right.as_str()
        }
        (Value::List(left), Value::List(right)) => {
            all_equal(left, right, depth)?
        }
        (
            Value::Tuple(left) | Value::Group(left),
            Value::Tuple(right) | Value::Group(right),
        ) => all_equal(left, right, depth)?,
        (Value::Dict(left), Value::Dict(right)) => {
            same_entries(left, right, depth)?
        }
        (Value::Range(left), Value::Range(right)) => {
            let (left, right) = (*left, *right);
            left.len() == right.len()
                && (left.len() == 0 || left.start == right.start)
                && (left.len() < 2 || left.step == right.step)
        }
        (Value::View(left, a), Value::View(right, b)) => {
            *a == *b && *a != View::Values && {
                let is_pairs = *a == View::Pairs;
                match is_pairs {
                    true => same_entries(left, right, depth)?,
                    false => same_keys(left, right)?,
                }
            }
        }
        _ => same(left, right),
    })
}

fn all_equal(left: &[Value], right: &[Value], depth: usize) -> Outcome<bool> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (left, right) in left.iter().zip(right) {
        if !equal_at(left, right, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same_entries(left: &Dict, right: &Dict, depth: usize) -> Outcome<bool> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (key, value) in left.entries() {
        match right.get(key)? {
            Some(other) if equal_at(value, other, depth + 1)? => (),
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn same_keys(left: &Dict, right: &Dict) -> Outcome<bool> {
    for (key, _) in left.entries() {
        if right.get(key)?.is_none() {
            return Ok(false);
        }
    }
    Ok(left.len() == right.len())
}

/// `is sameas`
pub fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::None, Value::None) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Int(left), Value::Int(right)) => {
            left == right && (-5..=256).contains(left)
        }
        (Value::Str(left), Value::Str(right)) => {
            std::ptr::eq(left.as_str(), right.as_str())
                || (left.len() <= 1 && left.as_str() == right.as_str())
        }
        (Value::List(left), Value::List(right))
        | (Value::Tuple(left), Value::Tuple(right))
        | (Value::Group(left), Value::Group(right)) => Rc::ptr_eq(left, right),
        (Value::Dict(left), Value::Dict(right)) => Rc::ptr_eq(left, right),
        (Value::Items(left), Value::Items(right)) => Rc::ptr_eq(left, right),
        (Value::Namespace(left), Value::Namespace(right)) => {
            Rc::ptr_eq(left, right)
        }
        (Value::Macro(left), Value::Macro(right)) => Rc::ptr_eq(left, right),
        (Value::Loop(left), Value::Loop(right)) => Rc::ptr_eq(left, right),
        (Value::Cycler(left), Value::Cycler(right)) => Rc::ptr_eq(left, right),
        (Value::Joiner(left), Value::Joiner(right)) => Rc::ptr_eq(left, right),
        (Value::Function(left), Value::Function(right)) => left == right,
        (Value::Undefined(left), Value::Undefined(right)) => {
            Rc::ptr_eq(left, right)
        }
        _ => false,
    }
}

/// None where one is no number.
fn by_number(left: &Value, right: &Value) -> Option<Option<Ordering>> {
    if let (Some(left), Some(right)) = (left.as_int(), right.as_int()) {
        return Some(left.partial_cmp(&right));
    }
    Some(as_float(left)?.partial_cmp(&as_float(right)?))
}

/// How `left` stands to `right`; None where neither is before the other.
pub fn order(
    left: &Value,
    right: &Value,
    symbol: &str,
) -> Outcome<Option<Ordering>> {
    order_at(left, right, symbol, 0)
}

fn order_at(
    left: &Value,
    right: &Value,
    symbol: &str,
    depth: usize,
) -> Outcome<Option<Ordering>> {
    if depth > MAX_DEPTH {
        return too_deep();
    }
    for side in [left, right] {
        if let Value::Undefined(undefined) = side {
            return raise(&*undefined.why);
        }
    }
    if let Some(order) = by_number(left, right) {
        return Ok(order);
    }
    let (left_items, right_items) = match (left, right) {
        (Value::Str(left), Value::Str(right)) => {
            return Ok(Some(left.as_str().cmp(right.as_str())))
        }
        (Value::List(left), Value::List(right)) => (left, right),
        (
            Value::Tuple(left) | Value::Group(left),
            Value::Tuple(right) | Value::Group(right),
        ) => (left, right),
        _ => {
            return raise(format!(
                "'{symbol}' not supported between instances of '{}' and '{}'",
                left.type_name(),
                right.type_name()
            ))
        }
    };
    for (left, right) in left_items.iter().zip(right_items.iter()) {
        if !equal_at(left, right, depth + 1)? {
            return order_at(left, right, symbol, depth + 1);
        }
    }
    Ok(Some(left_items.len().cmp(&right_items.len())))
}

pub fn compare(
    operator: Comparison,
    left: &Value,
    right: &Value,
) -> Outcome<bool> {
    use Ordering::{Equal, Greater, Less};
    Ok(match operator {
        Comparison::Eq => equal(left, right)?,
        Comparison::Ne => !equal(left, right)?,
        Comparison::Lt => order(left, right, "<")? == Some(Less),
        Comparison::Gt => order(left, right, ">")? == Some(Greater),
        Comparison::Le => {
            matches!(order(left, right, "<=")?, Some(Less | Equal))
        }
        Comparison::Ge => {
            matches!(order(left, right, ">=")?, Some(Greater | Equal))
        }
        Comparison::In | Comparison::NotIn => {
            unreachable!("contains() tells them")
        }
    })
}

/// `item in among`
pub fn contains(
    render: &mut Render,
    among: &Value,
    item: &Value,
) -> Outcome<bool> {
    match among {
        Value::Str(text) => match item.as_str() {
            Some(part) => {
                render.step(text.as_str().len() as u64 / 256)?;
                Ok(text.as_str().contains(part))
            }
            None => raise(format!(
                "'in <string>' requires string as left operand, not {}",
                item.type_name()
            )),
        },
        Value::Dict(dict) | Value::View(dict, View::Keys) => {
            Ok(dict.get(item)?.is_some())
        }
        Value::Namespace(_) | Value::Cycler(_) | Value::Joiner(_) => {
            not_iterable(among)
        }
        _ => {
            let Ok(mut items) = iterate(among) else {
                return not_iterable(among);
            };
            while let Some(other) = items.next(render)? {
                if same(&other, item) || equal(&other, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}

fn not_iterable(among: &Value) -> Outcome<bool> {
    raise(format!("argument of type '{}' is not iterable", among.type_name()))
}

/// sorted(values, key=keys, reverse=reverse): stable.
pub fn sorted(
    render: &mut Render,
    mut values: Vec<(Value, Value)>,
    reverse: bool,
) -> Outcome<Vec<Value>> {
    if reverse {
        values.reverse();
    }
    let mut values = merged(render, values)?;
    if reverse {
        values.reverse();
    }
    Ok(values.into_iter().map(|(_, value)| value).collect())
}

/// By the first of each pair.
fn merged(
    render: &mut Render,
    mut left: Vec<(Value, Value)>,
) -> Outcome<Vec<(Value, Value)>> {
    if left.len() < 2 {
        return Ok(left);
    }
    let right = left.split_off(left.len() / 2);
    let (left, right) = (merged(render, left)?, merged(render, right)?);
    let mut out = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) =
        (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        render.step(1)?;
        let takes_right = order(&b.0, &a.0, "<")? == Some(Ordering::Less);
        out.extend(if takes_right { right.next() } else { left.next() });
    }
    out.extend(left);
    out.extend(right);
    Ok(out)
}
