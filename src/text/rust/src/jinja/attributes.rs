//! `value.name` and `value[index]` as the sandbox looks them up.

use super::dict::key_of;
use super::error::{raise, Outcome};
use super::methods::method_of;
use super::run::Render;
use super::value::Value;

/// How errors call a value.
fn shown(value: &Value) -> String {
    match value {
        Value::None => "None".to_owned(),
        other => format!("{} object", other.type_name()),
    }
}

fn no_attribute(value: &Value, name: &str) -> Value {
    Value::undefined(format!("'{}' has no attribute '{name}'", shown(value)))
}

impl Render {
    /// An attribute goes before an item of its name.
    pub fn attribute(&mut self, value: &Value, name: &str) -> Outcome<Value> {
        if let Some(found) = self.own_attribute(value, name)? {
            return Ok(found);
        }
        Ok(match value {
            Value::Dict(dict) => dict.get_str(name).cloned(),
            _ => None,
        }
        .unwrap_or_else(|| no_attribute(value, name)))
    }

    /// An item goes before an attribute of its name.
    pub fn item(&mut self, value: &Value, index: &Value) -> Outcome<Value> {
        if let Some(found) = item_at(value, index)? {
            return Ok(found);
        }
        if let Some(name) = index.as_str() {
            if let Some(found) = self.own_attribute(value, name)? {
                return Ok(found);
            }
            return Ok(no_attribute(value, name));
        }
        let index = self.repr_of(index)?;
        Ok(Value::undefined(format!("{} has no element {index}", shown(value))))
    }

    /// Python's getattr.
    pub fn own_attribute(
        &mut self,
        value: &Value,
        name: &str,
    ) -> Outcome<Option<Value>> {
        if let Value::Undefined(undefined) = value {
            return raise(&*undefined.why);
        }
        if let Value::Namespace(dict) = value {
            return Ok(dict.borrow().get_str(name).cloned());
        }
        let is_inner = name.starts_with("__") && name.ends_with("__");
        if is_inner && is_known_inner(name) {
            return Ok(Some(unsafe_attribute(value, name)));
        }
        if let Some((name, is_safe)) = method_of(value, name) {
            return Ok(Some(match is_safe {
                true => Value::Method(std::rc::Rc::new((value.clone(), name))),
                false => unsafe_attribute(value, name),
            }));
        }
        Ok(match (value, name) {
            (Value::Loop(state), _) => return state.member(name, self),
            (Value::Group(items), "grouper") => items.first().cloned(),
            (Value::Group(items), "list") => items.get(1).cloned(),
            (Value::Range(range), "start") => Some(Value::Int(range.start)),
            (Value::Range(range), "stop") => Some(Value::Int(range.stop)),
            (Value::Range(range), "step") => Some(Value::Int(range.step)),
            (Value::Int(_) | Value::Bool(_), "real" | "numerator") => {
                value.as_int().map(Value::Int)
            }
            (Value::Int(_) | Value::Bool(_), "imag") => Some(Value::Int(0)),
            (Value::Int(_) | Value::Bool(_), "denominator") => {
                Some(Value::Int(1))
            }
            (Value::Float(_), "real") => Some(value.clone()),
            (Value::Float(_), "imag") => Some(Value::Float(0.0)),
            (Value::Cycler(cycler), "current") => {
                Some(cycler.items[cycler.at.get()].clone())
            }
            (Value::Cycler(cycler), "items") => {
                Some(Value::tuple(cycler.items.clone()))
            }
            (Value::Cycler(cycler), "pos") => {
                Some(Value::count(cycler.at.get()))
            }
            (Value::Joiner(joiner), "sep") => Some(joiner.separator.clone()),
            (Value::Joiner(joiner), "used") => {
                Some(Value::Bool(joiner.used.get()))
            }
            (Value::Macro(defined), "name") => Some(match &defined.node.name {
                Some(name) => Value::text(name),
                None => Value::None,
            }),
            (Value::Macro(defined), "arguments") => {
                let names = defined.node.parameters.iter();
                Some(Value::tuple(
                    names.map(|(name, _)| Value::text(name)).collect(),
                ))
            }
            (Value::Macro(defined), "catch_kwargs") => {
                Some(Value::Bool(defined.node.reads_kwargs))
            }
            (Value::Macro(defined), "catch_varargs") => {
                Some(Value::Bool(defined.node.reads_varargs))
            }
            (Value::Macro(defined), "caller") => {
                Some(Value::Bool(defined.node.reads_caller))
            }
            _ => None,
        })
    }
}

/// Those of every object; what else has such a name is an item.
fn is_known_inner(name: &str) -> bool {
    matches!(
        name,
        "__class__"
            | "__dict__"
            | "__doc__"
            | "__init__"
            | "__eq__"
            | "__ne__"
            | "__hash__"
            | "__repr__"
            | "__str__"
            | "__len__"
            | "__iter__"
            | "__getitem__"
            | "__getattribute__"
            | "__setattr__"
            | "__dir__"
            | "__format__"
            | "__new__"
            | "__reduce__"
            | "__reduce_ex__"
            | "__sizeof__"
            | "__subclasshook__"
            | "__init_subclass__"
    )
}

/// What may not be touched is not there; a call says why.
fn unsafe_attribute(value: &Value, name: &str) -> Value {
    Value::undefined(format!(
        "access to attribute '{name}' of '{}' object is unsafe.",
        value.type_name()
    ))
}

/// value[index]; None where Python has a TypeError or a LookupError.
fn item_at(value: &Value, index: &Value) -> Outcome<Option<Value>> {
    Ok(match value {
        Value::Undefined(undefined) => return raise(&*undefined.why),
        Value::Dict(dict) => match key_of(index) {
            Ok(_) => dict.get(index)?.cloned(),
            Err(_) => None,
        },
        Value::List(items) | Value::Tuple(items) | Value::Group(items) => {
            place(index, items.len()).map(|at| items[at].clone())
        }
        Value::Range(range) => place(index, range.len()).map(|at| range.at(at)),
        Value::Str(text) => place(index, text.len()).map(|at| {
            let from = text.byte_at(at);
            let c = text.as_str()[from..].chars().next().unwrap_or(' ');
            let one = c.encode_utf8(&mut [0; 4]).to_owned();
            Value::Str(super::value::Text::new(&one, text.safe))
        }),
        _ => None,
    })
}

fn place(index: &Value, len: usize) -> Option<usize> {
    let index = index.as_int()?;
    let at = if index < 0 { index + len as i128 } else { index };
    usize::try_from(at).ok().filter(|at| *at < len)
}
