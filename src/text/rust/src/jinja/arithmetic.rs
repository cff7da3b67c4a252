//! + - * / // % **

use std::rc::Rc;

use super::error::{raise, raised, Outcome};
use super::percent_format;
use super::run::Render;
use super::syntax::Operator;
use super::text_filters::escaped;
use super::value::{Text, Value};

/// Two numbers of one kind.
enum Pair {
    Ints(i128, i128),
    Floats(f64, f64),
}

/// As float(value) has numbers.
pub fn as_float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(number) => Some(*number),
        other => other.as_int().map(|number| number as f64),
    }
}

fn pair(left: &Value, right: &Value) -> Option<Pair> {
    if let (Some(left), Some(right)) = (left.as_int(), right.as_int()) {
        return Some(Pair::Ints(left, right));
    }
    Some(Pair::Floats(as_float(left)?, as_float(right)?))
}

fn symbol(operator: Operator) -> &'static str {
    match operator {
        Operator::Add => "+",
        Operator::Sub => "-",
        Operator::Mul => "*",
        Operator::Div => "/",
        Operator::FloorDiv => "//",
        Operator::Mod => "%",
        Operator::Pow => "** or pow()",
    }
}

fn too_large() -> super::error::Error {
    raised("a number has more than 127 bits")
}

impl Render {
    pub fn binary(
        &mut self,
        operator: Operator,
        left: &Value,
        right: &Value,
    ) -> Outcome<Value> {
        if let (Operator::Mod, Value::Str(text)) = (operator, left) {
            let made = percent_format::format(self, text, right)?;
            return Ok(Value::Str(Text::new(&made, text.safe)));
        }
        for side in [left, right] {
            if let Value::Undefined(undefined) = side {
                return raise(&*undefined.why);
            }
        }
        if let Some(pair) = pair(left, right) {
            return numbers(operator, pair);
        }
        match (operator, left, right) {
            (Operator::Add, Value::Str(left), Value::Str(right)) => {
                self.joined(left, right)
            }
            (Operator::Add, Value::List(left), Value::List(right)) => {
                Ok(Value::list(self.appended(left, right)?))
            }
            (
                Operator::Add,
                Value::Tuple(left) | Value::Group(left),
                Value::Tuple(right) | Value::Group(right),
            ) => Ok(Value::tuple(self.appended(left, right)?)),
            (Operator::Mul, many, count) if count.as_int().is_some() => {
                self.repeated(many, count, right)
            }
            (Operator::Mul, count, many) if count.as_int().is_some() => {
                self.repeated(many, count, right)
            }
            _ => raise(unsupported(operator, left, right)),
        }
    }

    fn joined(&mut self, left: &Text, right: &Text) -> Outcome<Value> {
        self.room_for(left.as_str().len() + right.as_str().len())?;
        if left.safe == right.safe {
            let text = [left.as_str(), right.as_str()].concat();
            return Ok(Value::Str(Text::new(&text, left.safe)));
        }
        let side = |text: &Text| match text.safe {
            true => text.as_str().to_owned(),
            false => escaped(text.as_str()),
        };
        Ok(Value::Str(Text::new(&(side(left) + &side(right)), true)))
    }

    fn appended(
        &mut self,
        left: &Rc<Vec<Value>>,
        right: &Rc<Vec<Value>>,
    ) -> Outcome<Vec<Value>> {
        self.room_for_items(left.len() + right.len())?;
        Ok(left.iter().chain(right.iter()).cloned().collect())
    }

    fn repeated(
        &mut self,
        many: &Value,
        count: &Value,
        right: &Value,
    ) -> Outcome<Value> {
        let count = usize::try_from(count.as_int().unwrap_or(0).max(0))
            .unwrap_or(usize::MAX);
        match many {
            Value::Str(text) => {
                self.room_for(text.as_str().len().saturating_mul(count))?;
                let made = text.as_str().repeat(count);
                Ok(Value::Str(Text::new(&made, text.safe)))
            }
            Value::List(items) | Value::Tuple(items) | Value::Group(items) => {
                self.room_for_items(items.len().saturating_mul(count))?;
                let made = (0..count).flat_map(|_| items.iter().cloned());
                let made = made.collect();
                Ok(match many {
                    Value::List(_) => Value::list(made),
                    _ => Value::tuple(made),
                })
            }
            other => raise(unsupported(Operator::Mul, other, right)),
        }
    }

    pub fn negative(&mut self, value: &Value) -> Outcome<Value> {
        match value {
            Value::Undefined(undefined) => raise(&*undefined.why),
            Value::Float(number) => Ok(Value::Float(-number)),
            other => match other.as_int() {
                Some(number) => Ok(Value::Int(-number)),
                None => raise(format!(
                    "bad operand type for unary -: '{}'",
                    other.type_name()
                )),
            },
        }
    }

    pub fn positive(&mut self, value: &Value) -> Outcome<Value> {
        match value {
            Value::Undefined(undefined) => raise(&*undefined.why),
            Value::Float(number) => Ok(Value::Float(*number)),
            other => match other.as_int() {
                Some(number) => Ok(Value::Int(number)),
                None => raise(format!(
                    "bad operand type for unary +: '{}'",
                    other.type_name()
                )),
            },
        }
    }
}

fn unsupported(operator: Operator, left: &Value, right: &Value) -> String {
    if let (Operator::Add, Value::Str(_)) = (operator, left) {
        return format!(
            "can only concatenate str (not \"{}\") to str",
            right.type_name()
        );
    }
    format!(
        "unsupported operand type(s) for {}: '{}' and '{}'",
        symbol(operator),
        left.type_name(),
        right.type_name()
    )
}

fn numbers(operator: Operator, pair: Pair) -> Outcome<Value> {
    match pair {
        Pair::Ints(left, right) => ints(operator, left, right),
        Pair::Floats(left, right) => floats(operator, left, right),
    }
}

fn ints(operator: Operator, left: i128, right: i128) -> Outcome<Value> {
    let checked = |number: Option<i128>| number.ok_or_else(too_large);
    Ok(Value::Int(match operator {
        Operator::Add => checked(left.checked_add(right))?,
        Operator::Sub => checked(left.checked_sub(right))?,
        Operator::Mul => checked(left.checked_mul(right))?,
        Operator::Div if right == 0 => return raise("division by zero"),
        Operator::Div => return Ok(Value::Float(left as f64 / right as f64)),
        Operator::FloorDiv | Operator::Mod if right == 0 => {
            return raise("integer division or modulo by zero")
        }
        Operator::FloorDiv => {
            let (whole, rest) = (left / right, left % right);
            whole - i128::from(rest != 0 && (rest < 0) != (right < 0))
        }
        Operator::Mod => {
            let rest = left % right;
            let wrong = rest != 0 && (rest < 0) != (right < 0);
            if wrong {
                rest + right
            } else {
                rest
            }
        }
        Operator::Pow if right < 0 => {
            return floats(operator, left as f64, right as f64)
        }
        Operator::Pow => match u32::try_from(right) {
            Ok(power) => checked(left.checked_pow(power))?,
            Err(_) if left.abs() <= 1 => left.pow((right % 2) as u32 + 2),
            Err(_) => return Err(too_large()),
        },
    }))
}

fn floats(operator: Operator, left: f64, right: f64) -> Outcome<Value> {
    Ok(Value::Float(match operator {
        Operator::Add => left + right,
        Operator::Sub => left - right,
        Operator::Mul => left * right,
        Operator::Div if right == 0.0 => {
            return raise("float division by zero")
        }
        Operator::Div => left / right,
        Operator::FloorDiv | Operator::Mod if right == 0.0 => {
            return raise("float floor division by zero")
        }
        Operator::FloorDiv => ((left - modulo(left, right)) / right).round(),
        Operator::Mod => modulo(left, right),
        Operator::Pow if left == 0.0 && right < 0.0 => {
            return raise("0.0 cannot be raised to a negative power")
        }
        Operator::Pow => left.powf(right),
    }))
}

fn modulo(left: f64, right: f64) -> f64 {
    let rest = left % right;
    if rest != 0.0 && (rest < 0.0) != (right < 0.0) {
        rest + right
    } else {
        rest
    }
}
