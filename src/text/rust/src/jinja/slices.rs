//! `value[from:to:step]`

use std::rc::Rc;

use super::arguments::need_int;
use super::error::{raise, Outcome};
use super::run::Render;
use super::value::{Range, Text, Value};

/// Where a slice begins and ends and how it steps, in a sequence of `len`.
struct Span {
    from: i128,
    to: i128,
    step: i128,
}

fn span(bounds: &[Value; 3], len: usize) -> Outcome<Span> {
    let len = len as i128;
    let whole = |value: &Value| match value {
        Value::None => Ok(None),
        value => match value.as_int() {
            Some(number) => Ok(Some(number)),
            None if value.is_undefined() => need_int(value).map(Some),
            None => raise(
                "slice indices must be integers or None or have an __index__ \
                 method",
            ),
        },
    };
    let step = whole(&bounds[2])?.unwrap_or(1);
    if step == 0 {
        return raise("slice step cannot be zero");
    }
    let (least, most) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let bound = |value: &Value, otherwise: i128| -> Outcome<i128> {
        Ok(match whole(value)? {
            None => otherwise,
            Some(at) if at < 0 => (at.saturating_add(len)).max(least),
            Some(at) => at.min(most),
        })
    };
    let (first, last) = if step > 0 { (0, len) } else { (len - 1, -1) };
    Ok(Span {
        from: bound(&bounds[0], first)?,
        to: bound(&bounds[1], last)?,
        step,
    })
}

impl Span {
    fn range(&self) -> Range {
        Range { start: self.from, stop: self.to, step: self.step }
    }

    /// The places, in order.
    fn places(&self) -> impl Iterator<Item = usize> + '_ {
        let range = self.range();
        (0..range.len())
            .map(move |at| (range.start + range.step * at as i128) as usize)
    }
}

pub fn slice(
    render: &mut Render,
    value: &Value,
    bounds: [Value; 3],
) -> Outcome<Value> {
    match value {
        Value::Undefined(undefined) => raise(&*undefined.why),
        Value::Str(text) => slice_text(render, text, &bounds),
        Value::List(items) => {
            Ok(Value::List(slice_items(render, items, &bounds)?))
        }
        Value::Tuple(items) | Value::Group(items) => {
            Ok(Value::Tuple(slice_items(render, items, &bounds)?))
        }
        Value::Range(range) => {
            let span = span(&bounds, range.len())?;
            Ok(Value::Range(Range {
                start: range.start + range.step * span.from,
                stop: range.start + range.step * span.to,
                step: range.step * span.step,
            }))
        }
        Value::Dict(_) => raise("unhashable type: 'slice'"),
        other => raise(format!(
            "'{}' object is not subscriptable",
            other.type_name()
        )),
    }
}

fn slice_items(
    render: &mut Render,
    items: &Rc<Vec<Value>>,
    bounds: &[Value; 3],
) -> Outcome<Rc<Vec<Value>>> {
    let span = span(bounds, items.len())?;
    render.room_for_items(span.range().len())?;
    Ok(Rc::new(span.places().map(|at| items[at].clone()).collect()))
}

fn slice_text(
    render: &mut Render,
    text: &Text,
    bounds: &[Value; 3],
) -> Outcome<Value> {
    render.room_for(text.as_str().len())?;
    let span = span(bounds, text.len())?;
    if span.step == 1 {
        let from = text.byte_at(span.from as usize);
        let to = text.byte_at(span.to.max(span.from) as usize);
        let part = &text.as_str()[from..to];
        return Ok(Value::Str(Text::new(part, text.safe)));
    }
    let chars: Vec<char> = text.as_str().chars().collect();
    let part: String = span.places().map(|at| chars[at]).collect();
    Ok(Value::Str(Text::new(&part, text.safe)))
}
