//! Python's iterators.

use std::cell::RefCell;
use std::rc::Rc;

use super::dict::Dict;
use super::error::{raise, Outcome};
use super::run::Render;
use super::value::{Range, Text, Value, View};

type Next = Box<dyn FnMut(&mut Render) -> Outcome<Option<Value>>>;

#[derive(Default)]
pub enum Items {
    #[default]
    Done,
    Values(Rc<Vec<Value>>, usize),
    /// How many are left, from the front.
    Backwards(Rc<Vec<Value>>, usize),
    Range(Range, usize),
    /// The next character's byte.
    Chars(Text, usize),
    Entries(Rc<Dict>, View, usize),
    Shared(Rc<RefCell<Items>>),
    /// What a generator does for each.
    Made(Next),
}

impl Items {
    pub fn of(values: Vec<Value>) -> Items {
        Items::Values(Rc::new(values), 0)
    }

    pub fn made(
        next: impl FnMut(&mut Render) -> Outcome<Option<Value>> + 'static,
    ) -> Items {
        Items::Made(Box::new(next))
    }

    pub fn next(&mut self, render: &mut Render) -> Outcome<Option<Value>> {
        render.step(1)?;
        let next = match self {
            Items::Done => None,
            Items::Values(values, at) => {
                *at += 1;
                values.get(*at - 1).cloned()
            }
            Items::Backwards(values, left) => {
                *left = left.wrapping_sub(1);
                values.get(*left).cloned()
            }
            Items::Range(range, at) => {
                *at += 1;
                (*at <= range.len()).then(|| range.at(*at - 1))
            }
            Items::Chars(text, at) => {
                let next = text.as_str()[*at..].chars().next();
                next.map(|c| {
                    *at += c.len_utf8();
                    let one = c.encode_utf8(&mut [0; 4]).to_owned();
                    Value::from(one)
                })
            }
            Items::Entries(dict, view, at) => {
                *at += 1;
                dict.entries().get(*at - 1).map(|entry| shown(entry, *view))
            }
            Items::Shared(items) => match items.clone().try_borrow_mut() {
                Ok(mut items) => items.next(render)?,
                Err(_) => return raise("generator already executing"),
            },
            Items::Made(next) => {
                let mut next = std::mem::replace(
                    next,
                    Box::new(|_| raise("generator already executing")),
                );
                let value = next(render)?;
                if value.is_some() {
                    *self = Items::Made(next);
                }
                value
            }
        };
        if next.is_none() {
            *self = Items::Done;
        }
        Ok(next)
    }
}

fn shown(entry: &(Value, Value), view: View) -> Value {
    match view {
        View::Keys => entry.0.clone(),
        View::Values => entry.1.clone(),
        View::Pairs => Value::tuple(vec![entry.0.clone(), entry.1.clone()]),
    }
}

/// iter(value)
pub fn iterate(value: &Value) -> Outcome<Items> {
    match maybe_iterate(value) {
        Some(items) => Ok(items),
        None => {
            raise(format!("'{}' object is not iterable", value.type_name()))
        }
    }
}

pub fn maybe_iterate(value: &Value) -> Option<Items> {
    Some(match value {
        Value::Undefined(_) => Items::Done,
        Value::Str(text) => Items::Chars(text.clone(), 0),
        Value::List(items) | Value::Tuple(items) | Value::Group(items) => {
            Items::Values(items.clone(), 0)
        }
        Value::Dict(dict) => Items::Entries(dict.clone(), View::Keys, 0),
        Value::View(dict, view) => Items::Entries(dict.clone(), *view, 0),
        Value::Range(range) => Items::Range(*range, 0),
        Value::Items(items) => Items::Shared(items.clone()),
        Value::Loop(state) => {
            let state = state.clone();
            Items::made(move |render| {
                let next = state.advance(render)?;
                Ok(next.map(|item| {
                    Value::tuple(vec![item, Value::Loop(state.clone())])
                }))
            })
        }
        _ => return None,
    })
}

impl Render {
    /// list(value)
    pub fn listed(&mut self, value: &Value) -> Outcome<Rc<Vec<Value>>> {
        if let Some(items) = value.as_sequence() {
            self.step(items.len() as u64 / 8)?;
            return Ok(items.clone());
        }
        let mut items = iterate(value)?;
        let mut values = Vec::new();
        while let Some(item) = items.next(self)? {
            values.push(item);
        }
        Ok(Rc::new(values))
    }

    /// reversed(value), where Python has it.
    pub fn backwards(&mut self, value: &Value) -> Outcome<Option<Items>> {
        Ok(match value {
            Value::Undefined(_)
            | Value::Str(_)
            | Value::List(_)
            | Value::Tuple(_)
            | Value::Group(_)
            | Value::Dict(_)
            | Value::View(..)
            | Value::Range(_) => {
                let values = self.listed(value)?;
                let left = values.len();
                Some(Items::Backwards(values, left))
            }
            _ => None,
        })
    }
}
