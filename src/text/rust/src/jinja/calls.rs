//! Calls what can be called.

use std::rc::Rc;

use super::arguments::Arguments;
use super::error::{raise, Outcome};
use super::functions;
use super::methods;
use super::run::Render;
use super::scope::Scope;
use super::value::{Macro, Value};

impl Render {
    pub fn call(
        &mut self,
        callee: &Value,
        arguments: Arguments,
    ) -> Outcome<Value> {
        match callee {
            Value::Undefined(undefined) => raise(&*undefined.why),
            Value::Macro(defined) => self.call_macro(defined, arguments),
            Value::Loop(outer) => {
                let [over] = arguments.bind("loop", ["iterable"], 1)?;
                self.recurse(outer, over.unwrap_or(Value::None))
            }
            Value::Joiner(joiner) => {
                arguments.none("joiner")?;
                Ok(match joiner.used.replace(true) {
                    true => joiner.separator.clone(),
                    false => Value::from(""),
                })
            }
            Value::Method(method) => {
                let (value, name) = &**method;
                methods::call(self, value, name, arguments)
            }
            Value::Function(function) => {
                functions::call(self, *function, arguments)
            }
            other => {
                raise(format!("'{}' object is not callable", other.type_name()))
            }
        }
    }

    fn call_macro(
        &mut self,
        defined: &Rc<Macro>,
        arguments: Arguments,
    ) -> Outcome<Value> {
        let node = defined.node.clone();
        let scope = Scope::inside(&defined.scope);
        let Arguments { mut positional, mut named } = arguments;
        let mut take = |name: &str| {
            let at = named.iter().position(|(known, _)| **known == *name)?;
            Some(named.remove(at).1)
        };
        let num = node.parameters.len();
        let more = positional.split_off(positional.len().min(num));
        let mut values: Vec<Option<Value>> =
            positional.into_iter().map(Some).collect();
        for (name, _) in &node.parameters[values.len()..] {
            values.push(take(name));
        }
        let takes_caller =
            node.parameters.iter().any(|(name, _)| &**name == "caller");
        if node.reads_caller && !takes_caller {
            let none = || Value::undefined("No caller defined");
            let caller = take("caller").unwrap_or_else(none);
            scope.set(&"caller".into(), caller);
        }
        let title = node.name.as_deref().unwrap_or("None");
        if node.reads_kwargs {
            let entries = named
                .iter()
                .map(|(name, value)| (Value::text(name), value.clone()));
            let dict = super::dict::Dict::of(entries.collect())?;
            scope.set(&"kwargs".into(), Value::Dict(Rc::new(dict)));
        } else if let Some((name, _)) = named.first() {
            return raise(format!(
                "macro '{title}' takes no keyword argument '{name}'"
            ));
        }
        if node.reads_varargs {
            scope.set(&"varargs".into(), Value::tuple(more));
        } else if !more.is_empty() {
            return raise(format!(
                "macro '{title}' takes not more than {num} argument(s)"
            ));
        }
        self.captured(|render| {
            for ((name, default), value) in node.parameters.iter().zip(values) {
                let value = match (value, default) {
                    (Some(value), _) => value,
                    (None, Some(default)) => render.eval(default, &scope)?,
                    (None, None) => Value::undefined(format!(
                        "parameter '{name}' was not provided"
                    )),
                };
                scope.set(name, value);
            }
            render.run(&node.body, &scope).map(|_| ())
        })
    }
}
