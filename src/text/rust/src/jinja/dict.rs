//! Python's dict: in the order of insertion.

use std::collections::HashMap;
use std::rc::Rc;

use super::error::{raise, Outcome};
use super::value::Value;

/// What is equal in Python is equal here: 1, 1.0 and True.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Key {
    None,
    Undefined,
    Int(i128),
    Float(u64),
    Str(Rc<str>),
    Tuple(Vec<Key>),
    /// By where it is.
    Object(usize),
}

pub fn key_of(value: &Value) -> Outcome<Key> {
    Ok(match value {
        Value::None => Key::None,
        Value::Undefined(_) => Key::Undefined,
        Value::Bool(flag) => Key::Int(i128::from(*flag)),
        Value::Int(number) => Key::Int(*number),
        Value::Float(number) => {
            let whole = *number as i128;
            if whole as f64 == *number && number.abs() < 1e30 {
                Key::Int(whole)
            } else {
                Key::Float(number.to_bits())
            }
        }
        Value::Str(text) => Key::Str(text.as_str().into()),
        Value::Tuple(items) | Value::Group(items) => {
            Key::Tuple(items.iter().map(key_of).collect::<Outcome<_>>()?)
        }
        Value::List(_) | Value::Dict(_) | Value::View(..) => {
            return raise(format!("unhashable type: '{}'", value.type_name()))
        }
        Value::Range(range) => Key::Tuple(vec![
            Key::Int(range.start),
            Key::Int(range.stop),
            Key::Int(range.step),
        ]),
        Value::Items(items) => Key::Object(Rc::as_ptr(items).addr()),
        Value::Namespace(dict) => Key::Object(Rc::as_ptr(dict).addr()),
        Value::Macro(defined) => Key::Object(Rc::as_ptr(defined).addr()),
        Value::Loop(state) => Key::Object(Rc::as_ptr(state).addr()),
        Value::Cycler(cycler) => Key::Object(Rc::as_ptr(cycler).addr()),
        Value::Joiner(joiner) => Key::Object(Rc::as_ptr(joiner).addr()),
        Value::Method(method) => Key::Object(Rc::as_ptr(method).addr()),
        Value::Function(function) => Key::Object(*function as usize),
    })
}

/// Up to so many entries are searched one by one.
const SMALL: usize = 8;

#[derive(Default)]
pub struct Dict {
    entries: Vec<(Value, Value)>,
    /// Of every entry, once they are many.
    index: HashMap<Key, usize>,
}

impl Dict {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn entries(&self) -> &[(Value, Value)] {
        &self.entries
    }

    pub fn get_str(&self, key: &str) -> Option<&Value> {
        if self.index.is_empty() {
            let found =
                self.entries.iter().find(|(k, _)| k.as_str() == Some(key));
            return found.map(|(_, value)| value);
        }
        let at = self.index.get(&Key::Str(key.into()))?;
        Some(&self.entries[*at].1)
    }

    pub fn get(&self, key: &Value) -> Outcome<Option<&Value>> {
        if let Some(text) = key.as_str() {
            return Ok(self.get_str(text));
        }
        let found = self.find(&key_of(key)?)?;
        Ok(found.map(|at| &self.entries[at].1))
    }

    fn find(&self, key: &Key) -> Outcome<Option<usize>> {
        if !self.index.is_empty() {
            return Ok(self.index.get(key).copied());
        }
        for (at, (other, _)) in self.entries.iter().enumerate() {
            if key_of(other)? == *key {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// The place of an equal key is kept, and the key too.
    pub fn insert(&mut self, key: Value, value: Value) -> Outcome<()> {
        let hashed = key_of(&key)?;
        if let Some(at) = self.find(&hashed)? {
            self.entries[at].1 = value;
            return Ok(());
        }
        let at = self.entries.len();
        self.entries.push((key, value));
        if !self.index.is_empty() {
            self.index.insert(hashed, at);
        } else if self.entries.len() > SMALL {
            for (at, (key, _)) in self.entries.iter().enumerate() {
                self.index.insert(key_of(key)?, at);
            }
        }
        Ok(())
    }

    /// Of what has no key twice.
    pub fn of(entries: Vec<(Value, Value)>) -> Outcome<Dict> {
        let mut dict = Dict::default();
        for (key, value) in entries {
            dict.insert(key, value)?;
        }
        Ok(dict)
    }
}
