//! What stands behind `is`.

use super::arguments::Arguments;
use super::compare::{compare, contains, equal, same};
use super::error::{raise, Outcome};
use super::filters::is_filter;
use super::items::maybe_iterate;
use super::run::Render;
use super::str_kinds::is_all;
use super::syntax::{Comparison, Operator};
use super::value::Value;

const NAMES: [&str; 39] = [
    "odd",
    "even",
    "divisibleby",
    "defined",
    "undefined",
    "filter",
    "test",
    "none",
    "boolean",
    "false",
    "true",
    "integer",
    "float",
    "lower",
    "upper",
    "string",
    "mapping",
    "number",
    "sequence",
    "iterable",
    "callable",
    "sameas",
    "escaped",
    "in",
    "==",
    "eq",
    "equalto",
    "!=",
    "ne",
    ">",
    "gt",
    "greaterthan",
    "ge",
    ">=",
    "<",
    "lt",
    "lessthan",
    "<=",
    "le",
];

impl Render {
    pub fn test(
        &mut self,
        name: &str,
        value: &Value,
        arguments: Arguments,
    ) -> Outcome<bool> {
        self.step(1)?;
        let operator = match name {
            "divisibleby" | "sameas" | "in" => None,
            "==" | "eq" | "equalto" => Some(Comparison::Eq),
            "!=" | "ne" => Some(Comparison::Ne),
            ">" | "gt" | "greaterthan" => Some(Comparison::Gt),
            ">=" | "ge" => Some(Comparison::Ge),
            "<" | "lt" | "lessthan" => Some(Comparison::Lt),
            "<=" | "le" => Some(Comparison::Le),
            _ => {
                if !NAMES.contains(&name) {
                    return raise(format!("No test named '{name}'."));
                }
                arguments.none(name)?;
                return self.is_kind(name, value);
            }
        };
        let parameter = match name {
            "divisibleby" => "num",
            "in" => "seq",
            _ => "other",
        };
        let [other] = arguments.bind(name, [parameter], 1)?;
        let other = other.unwrap_or(Value::None);
        match (operator, name) {
            (Some(operator), _) => compare(operator, value, &other),
            (None, "sameas") => Ok(same(value, &other)),
            (None, "in") => contains(self, &other, value),
            _ => self.leaves(value, &other, 0),
        }
    }

    /// Whether `value % by` is `rest`.
    fn leaves(
        &mut self,
        value: &Value,
        by: &Value,
        rest: i128,
    ) -> Outcome<bool> {
        let left = self.binary(Operator::Mod, value, by)?;
        equal(&left, &Value::Int(rest))
    }

    fn is_kind(&mut self, name: &str, value: &Value) -> Outcome<bool> {
        Ok(match name {
            "odd" => return self.leaves(value, &Value::Int(2), 1),
            "even" => return self.leaves(value, &Value::Int(2), 0),
            "defined" => !value.is_undefined(),
            "undefined" => value.is_undefined(),
            "filter" => value.as_str().is_some_and(is_filter),
            "test" => value.as_str().is_some_and(|name| NAMES.contains(&name)),
            "none" => matches!(value, Value::None),
            "boolean" => matches!(value, Value::Bool(_)),
            "false" => matches!(value, Value::Bool(false)),
            "true" => matches!(value, Value::Bool(true)),
            "integer" => matches!(value, Value::Int(_)),
            "float" => matches!(value, Value::Float(_)),
            "number" => matches!(
                value,
                Value::Bool(_) | Value::Int(_) | Value::Float(_)
            ),
            "string" => matches!(value, Value::Str(_)),
            "mapping" => matches!(value, Value::Dict(_)),
            "sequence" => matches!(
                value,
                Value::Undefined(_)
                    | Value::Str(_)
                    | Value::List(_)
                    | Value::Tuple(_)
                    | Value::Group(_)
                    | Value::Dict(_)
                    | Value::Range(_)
            ),
            "iterable" => maybe_iterate(value).is_some(),
            "callable" => value.is_callable(),
            "escaped" => matches!(value, Value::Str(text) if text.safe),
            "lower" => is_all(&self.str_of(value)?, char::is_uppercase),
            _ => is_all(&self.str_of(value)?, char::is_lowercase),
        })
    }
}
