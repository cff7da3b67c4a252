//! What functions, methods and filters are called with.

use super::error::{raise, Outcome};
use super::syntax::Name;
use super::value::Value;

#[derive(Clone, Default)]
pub struct Arguments {
    pub positional: Vec<Value>,
    pub named: Vec<(Name, Value)>,
}

impl Arguments {
    /// Each parameter's value: as Python binds them. The first `required` must
    /// be given.
    pub fn bind<const N: usize>(
        self,
        what: &str,
        names: [&str; N],
        required: usize,
    ) -> Outcome<[Option<Value>; N]> {
        if self.positional.len() > N {
            return raise(format!(
                "{what}() takes at most {N} arguments ({} given)",
                self.positional.len()
            ));
        }
        let mut bound = [const { None }; N];
        for (slot, value) in bound.iter_mut().zip(self.positional) {
            *slot = Some(value);
        }
        for (name, value) in self.named {
            let Some(at) = names.iter().position(|known| *known == &*name)
            else {
                return raise(format!(
                    "{what}() got an unexpected keyword argument '{name}'"
                ));
            };
            if bound[at].is_some() {
                return raise(format!(
                    "{what}() got multiple values for argument '{name}'"
                ));
            }
            bound[at] = Some(value);
        }
        for (name, value) in names.iter().zip(&bound).take(required) {
            if value.is_none() {
                return raise(format!(
                    "{what}() missing 1 required argument: '{name}'"
                ));
            }
        }
        Ok(bound)
    }

    /// Of what takes no names.
    pub fn only<const N: usize>(
        self,
        what: &str,
        required: usize,
    ) -> Outcome<[Option<Value>; N]> {
        if !self.named.is_empty() {
            return raise(format!("{what}() takes no keyword arguments"));
        }
        self.bind(what, [""; N], required)
    }

    /// Of what takes nothing.
    pub fn none(self, what: &str) -> Outcome<()> {
        self.only::<0>(what, 0).map(|_| ())
    }
}

/// An index or a count.
pub fn need_int(value: &Value) -> Outcome<i128> {
    if let Value::Undefined(undefined) = value {
        return raise(&*undefined.why);
    }
    match value.as_int() {
        Some(number) => Ok(number),
        None => raise(format!(
            "'{}' object cannot be interpreted as an integer",
            value.type_name()
        )),
    }
}

pub fn int_or(value: Option<Value>, otherwise: i128) -> Outcome<i128> {
    value.map_or(Ok(otherwise), |value| need_int(&value))
}

/// None is as not given.
pub fn optional_int(value: Option<Value>) -> Outcome<Option<i128>> {
    match value {
        None | Some(Value::None) => Ok(None),
        Some(value) => need_int(&value).map(Some),
    }
}

pub fn need_str(value: &Value) -> Outcome<&str> {
    match value.as_str() {
        Some(text) => Ok(text),
        None => raise(format!("must be str, not {}", value.type_name())),
    }
}

pub fn flag_or(value: Option<Value>, otherwise: bool) -> bool {
    value.map_or(otherwise, |value| value.is_true())
}
