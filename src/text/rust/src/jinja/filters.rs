//! The filters by name, and those of numbers and of any value.

use super::arguments::{flag_or, int_or, need_int, Arguments};
use super::arithmetic::as_float;
use super::compare::{sorted, too_deep, MAX_DEPTH};
use super::dict::Dict;
use super::error::{raise, Outcome};
use super::number_text::{parse_float, parse_int};
use super::percent_format;
use super::python_json;
use super::run::Render;
use super::sequence_filters;
use super::syntax::Operator;
use super::text_filters;
use super::value::{Text, Value};

const NAMES: [&str; 52] = [
    "abs",
    "attr",
    "batch",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "filesizeformat",
    "first",
    "float",
    "forceescape",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "string",
    "striptags",
    "sum",
    "title",
    "tojson",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
    "wordcount",
    "wordwrap",
    "xmlattr",
];

/// Python lays out what is longer in several lines.
const MAX_LINE: usize = 80;

pub fn is_filter(name: &str) -> bool {
    NAMES.contains(&name)
}

impl Render {
    pub fn filter(
        &mut self,
        name: &str,
        value: Value,
        arguments: Arguments,
    ) -> Outcome<Value> {
        self.step(1)?;
        match name {
            "default" | "d" => default(value, arguments),
            "length" | "count" => {
                arguments.none(name)?;
                match value.len() {
                    Some(len) => Ok(Value::count(len)),
                    None => self.loop_length(&value),
                }
            }
            "string" => {
                arguments.none(name)?;
                Ok(match value {
                    Value::Str(_) => value,
                    other => Value::from(self.str_of(&other)?),
                })
            }
            "tojson" => python_json::tojson(self, &value, arguments),
            "int" => int(&value, arguments),
            "float" => float(&value, arguments),
            "abs" => abs(&value, arguments),
            "round" => round(self, &value, arguments),
            "attr" => self.attr(&value, arguments),
            "format" => format(self, &value, arguments),
            "filesizeformat" => file_size(&value, arguments),
            "pprint" => {
                arguments.none(name)?;
                let ordered = in_order(self, &value, 0)?;
                let shown = self.repr_of(&ordered)?;
                match shown.len() {
                    0..=MAX_LINE => Ok(Value::from(shown)),
                    len => raise(format!(
                        "pprint: must be at most {MAX_LINE} bytes, is {len}"
                    )),
                }
            }
            _ if text_filters::NAMES.contains(&name) => {
                text_filters::apply(self, name, value, arguments)
            }
            _ if is_filter(name) => {
                sequence_filters::apply(self, name, value, arguments)
            }
            _ => raise(format!("No filter named '{name}'.")),
        }
    }

    fn loop_length(&mut self, value: &Value) -> Outcome<Value> {
        match value {
            Value::Loop(state) => Ok(Value::count(state.length(self)?)),
            other => raise(format!(
                "object of type '{}' has no len()",
                other.type_name()
            )),
        }
    }

    fn attr(&mut self, value: &Value, arguments: Arguments) -> Outcome<Value> {
        let [name] = arguments.bind("attr", ["name"], 1)?;
        let name = name.unwrap_or(Value::None);
        let Some(name) = name.as_str() else {
            return raise("attribute name must be string");
        };
        match self.own_attribute(value, name)? {
            Some(found) => Ok(found),
            None => Ok(Value::undefined(format!(
                "'{} object' has no attribute '{name}'",
                value.type_name()
            ))),
        }
    }
}

/// As pprint has dicts.
fn in_order(
    render: &mut Render,
    value: &Value,
    depth: usize,
) -> Outcome<Value> {
    if depth > MAX_DEPTH {
        return too_deep();
    }
    let mut all = |items: &[Value]| -> Outcome<Vec<Value>> {
        items.iter().map(|item| in_order(render, item, depth + 1)).collect()
    };
    Ok(match value {
        Value::List(items) => Value::list(all(items)?),
        Value::Tuple(items) => Value::tuple(all(items)?),
        Value::Dict(dict) => {
            let pairs = dict.entries().iter().map(|(key, value)| {
                let value = in_order(render, value, depth + 1)?;
                Ok((key.clone(), Value::tuple(vec![key.clone(), value])))
            });
            let pairs = pairs.collect::<Outcome<_>>()?;
            let sorted = sorted(render, pairs, false)?;
            let pairs = sorted.iter().filter_map(Value::as_sequence);
            let entries = pairs.map(|pair| (pair[0].clone(), pair[1].clone()));
            Value::Dict(std::rc::Rc::new(Dict::of(entries.collect())?))
        }
        other => other.clone(),
    })
}

fn default(value: Value, arguments: Arguments) -> Outcome<Value> {
    let [otherwise, boolean] =
        arguments.bind("default", ["default_value", "boolean"], 0)?;
    let falls =
        value.is_undefined() || (flag_or(boolean, false) && !value.is_true());
    Ok(match falls {
        true => otherwise.unwrap_or_else(|| Value::from("")),
        false => value,
    })
}

/// int(value) of what is no str; None where Python has a TypeError or a
/// ValueError.
fn whole(number: f64) -> Outcome<Option<i128>> {
    if number.is_infinite() {
        return Ok(None);
    }
    if number.abs() >= 1e38 {
        return raise("a number has more than 127 bits");
    }
    Ok((!number.is_nan()).then_some(number.trunc() as i128))
}

fn int(value: &Value, arguments: Arguments) -> Outcome<Value> {
    let [otherwise, base] = arguments.bind("int", ["default", "base"], 0)?;
    let otherwise = otherwise.unwrap_or(Value::Int(0));
    let number = match value {
        Value::Undefined(undefined) => return raise(&*undefined.why),
        Value::Float(number) if number.is_infinite() => {
            return raise("cannot convert float infinity to integer")
        }
        Value::Float(number) => whole(*number)?,
        Value::Str(text) => {
            let base = int_or(base, 10)?;
            let base = match u32::try_from(base) {
                Ok(base @ (0 | 2..=36)) => Some(base),
                _ => None,
            };
            match base.and_then(|base| parse_int(text.as_str(), base)) {
                Some(number) => Some(number),
                None => match parse_float(text.as_str()) {
                    Some(number) => whole(number)?,
                    None => None,
                },
            }
        }
        other => other.as_int(),
    };
    Ok(number.map_or(otherwise, Value::Int))
}

fn float(value: &Value, arguments: Arguments) -> Outcome<Value> {
    let [otherwise] = arguments.bind("float", ["default"], 0)?;
    let number = match value {
        Value::Undefined(undefined) => return raise(&*undefined.why),
        Value::Str(text) => parse_float(text.as_str()),
        other => as_float(other),
    };
    let otherwise = otherwise.unwrap_or(Value::Float(0.0));
    Ok(number.map_or(otherwise, Value::Float))
}

fn abs(value: &Value, arguments: Arguments) -> Outcome<Value> {
    arguments.none("abs")?;
    match (value, value.as_int()) {
        (_, Some(number)) => Ok(Value::Int(number.abs())),
        (Value::Float(number), _) => Ok(Value::Float(number.abs())),
        (other, _) => raise(format!(
            "bad operand type for abs(): '{}'",
            other.type_name()
        )),
    }
}

fn round(
    render: &mut Render,
    value: &Value,
    arguments: Arguments,
) -> Outcome<Value> {
    let [precision, method] =
        arguments.bind("round", ["precision", "method"], 0)?;
    let precision = int_or(precision, 0)?;
    let method = method.unwrap_or_else(|| Value::from("common"));
    let method = method.as_str().unwrap_or("");
    if !matches!(method, "common" | "ceil" | "floor") {
        return raise("method must be common, ceil or floor");
    }
    let Some(number) = as_float(value) else {
        return raise(format!(
            "type {} doesn't define __round__ method",
            value.type_name()
        ));
    };
    if method != "common" {
        let ten = Value::Int(10);
        let scale =
            render.binary(Operator::Pow, &ten, &Value::Int(precision))?;
        let scaled = render.binary(Operator::Mul, value, &scale)?;
        let scaled = as_float(&scaled).unwrap_or(0.0);
        let up = method == "ceil";
        let cut = if up { scaled.ceil() } else { scaled.floor() };
        let Some(cut) = whole(cut)? else {
            return raise("cannot convert float to integer");
        };
        return render.binary(Operator::Div, &Value::Int(cut), &scale);
    }
    match value.as_int() {
        Some(number) => Ok(Value::Int(rounded_int(number, precision))),
        None => Ok(Value::Float(rounded(number, precision))),
    }
}

/// Half to even, at a power of ten.
fn rounded_int(number: i128, precision: i128) -> i128 {
    if precision >= 0 {
        return number;
    }
    let power = u32::try_from(-precision).unwrap_or(u32::MAX);
    let Some(unit) = 10_i128.checked_pow(power) else { return 0 };
    let below = number.div_euclid(unit) * unit;
    let rest = number - below;
    let is_odd = (below / unit) % 2 != 0;
    let up = rest * 2 > unit || (rest * 2 == unit && is_odd);
    if up {
        below + unit
    } else {
        below
    }
}

fn rounded(number: f64, precision: i128) -> f64 {
    if !number.is_finite() || precision > 330 {
        return number;
    }
    if precision >= 0 {
        let precision = precision as usize;
        return format!("{number:.precision$}").parse().unwrap_or(number);
    }
    if precision < -330 {
        return 0.0 * number;
    }
    let unit = 10_f64.powi(-precision as i32);
    (number / unit).round_ties_even() * unit
}

fn format(
    render: &mut Render,
    value: &Value,
    arguments: Arguments,
) -> Outcome<Value> {
    let Arguments { positional, named } = arguments;
    if !positional.is_empty() && !named.is_empty() {
        return raise(
            "can't handle positional and keyword arguments at the same time",
        );
    }
    let values = match named.is_empty() {
        true => Value::tuple(positional),
        false => {
            let entries = named
                .into_iter()
                .map(|(name, value)| (Value::text(&name), value));
            let dict = Dict::of(entries.collect())?;
            Value::Dict(std::rc::Rc::new(dict))
        }
    };
    let text = match value {
        Value::Str(text) => text.clone(),
        other => Text::new(&render.str_of(other)?, false),
    };
    let made = percent_format::format(render, &text, &values)?;
    Ok(Value::Str(Text::new(&made, text.safe)))
}

fn file_size(value: &Value, arguments: Arguments) -> Outcome<Value> {
    let [binary] = arguments.bind("filesizeformat", ["binary"], 0)?;
    let binary = flag_or(binary, false);
    let bytes = match value {
        Value::Str(text) => parse_float(text.as_str()),
        other => as_float(other),
    };
    let Some(bytes) = bytes else {
        need_int(value)?;
        return raise("could not convert to float");
    };
    let base = if binary { 1024.0_f64 } else { 1000.0 };
    if bytes == 1.0 {
        return Ok(Value::from("1 Byte"));
    }
    if bytes < base {
        return Ok(Value::from(format!("{} Bytes", bytes.trunc())));
    }
    let letters = ["k", "M", "G", "T", "P", "E", "Z", "Y"];
    let mut at = 0;
    while at + 1 < letters.len() && bytes >= base.powi(at as i32 + 2) {
        at += 1;
    }
    let number = base * bytes / base.powi(at as i32 + 2);
    let unit = match binary {
        true => format!("{}iB", letters[at].to_uppercase()),
        false => format!("{}B", letters[at]),
    };
    Ok(Value::from(format!("{number:.1} {unit}")))
}
