//! JSON schemas that llguidance (1.9.1) cannot compile in bounded time, or does
//! not follow to the letter, refused before it sees them. Its fuel pays for nodes of regular expressions; what it
//! looks through to see whether an intersection is empty costs nothing. Of 30
//! patterns in an allOf, and of a multipleOf of 99,999,999, it was not back
//! after 40 s and 0.7 GB; 10,000 properties that may be absent took 46 s.

use serde_json::{Map, Number, Value};

use crate::failure::{Code, Failure, Outcome};

/// Of an object: each that may be absent costs as much as there are others.
const MAX_OPTIONAL_PROPERTIES: usize = 400;
const MAX_PROPERTIES: usize = 2000;
/// What its expressions repeat at most.
const MAX_COUNT: u64 = u32::MAX as u64;
/// Without its point: 0.25 is 25.
const MAX_MULTIPLE: u64 = 1000;
/// Numbers go through doubles: from it on others come out.
const MAX_NUMBER: f64 = 9_007_199_254_740_992.0;
/// Of a schema with anyOf within allOf, which are multiplied.
const MAX_PRODUCT_BYTES: usize = 8 << 10;

const COUNTS: [&str; 6] = [
    "maxItems",
    "maxLength",
    "maxProperties",
    "minItems",
    "minLength",
    "minProperties",
];

/// What llguidance asks of a value, but for how values are put together.
const ASSERTIONS: [&str; 23] = [
    "additionalItems",
    "additionalProperties",
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "required",
    "type",
];

/// Fails where compiling `schema`, a text of `num_bytes`, has no bound.
pub fn check_schema(schema: &Value, num_bytes: usize) -> Outcome<()> {
    let mut found = Found::default();
    found.look(schema)?;
    if found.patterns && found.meets {
        return Err(refused(
            "pattern must be absent beside allOf, and beside anyOf, oneOf or \
             $ref that stand with other keywords",
        ));
    }
    if found.all_of && found.any_of && num_bytes > MAX_PRODUCT_BYTES {
        return Err(refused(&format!(
            "a schema with allOf and anyOf or oneOf must be at most \
             {MAX_PRODUCT_BYTES} bytes, is {num_bytes}"
        )));
    }
    Ok(())
}

fn refused(what: &str) -> Failure {
    Failure::new(Code::InvalidArgument, what)
}

/// Whatever a reference may point to counts, also what is no schema.
#[derive(Default)]
struct Found {
    patterns: bool,
    all_of: bool,
    any_of: bool,
    /// Two descriptions of one value are put together.
    meets: bool,
    num_properties: usize,
}

impl Found {
    fn look(&mut self, value: &Value) -> Outcome<()> {
        match value {
            Value::Array(items) => items.iter().try_for_each(|v| self.look(v)),
            Value::Object(members) => {
                self.look_at(members)?;
                members.values().try_for_each(|v| self.look(v))
            }
            Value::Number(number) if is_large(number) => {
                Err(refused(&format!(
                    "numbers must be less than 2^53 from 0, one is {number}"
                )))
            }
            _ => Ok(()),
        }
    }

    fn look_at(&mut self, members: &Map<String, Value>) -> Outcome<()> {
        let is_list =
            |name: &str| members.get(name).is_some_and(Value::is_array);
        let is_reference = members.get("$ref").is_some_and(Value::is_string);
        let any_of = is_list("anyOf") || is_list("oneOf");
        self.any_of |= any_of;
        self.all_of |= is_list("allOf");
        let asserts = ASSERTIONS.iter().any(|name| members.contains_key(*name));
        let parts = usize::from(asserts)
            + usize::from(is_reference)
            + usize::from(is_list("anyOf"))
            + usize::from(is_list("oneOf"));
        self.meets |= is_list("allOf") || parts > 1;
        if let Some(pattern) = members.get("pattern").and_then(Value::as_str) {
            check_expression("pattern", pattern)?;
            self.patterns = true;
        }
        check_bounds(members)?;
        COUNTS.iter().try_for_each(|name| check_count(members, name))?;
        self.look_at_names(members)?;
        check_multiple(members.get("multipleOf"))
    }

    fn look_at_names(&mut self, members: &Map<String, Value>) -> Outcome<()> {
        let object = |name: &str| members.get(name).and_then(Value::as_object);
        if let Some(patterns) = object("patternProperties") {
            check_patterns(members, patterns)?;
            self.patterns |= !patterns.is_empty();
        }
        let Some(properties) = object("properties") else { return Ok(()) };
        let required = members
            .get("required")
            .and_then(Value::as_array)
            .map_or(0, |names| names.len());
        let num_optional = properties.len().saturating_sub(required);
        self.num_properties += properties.len();
        if num_optional > MAX_OPTIONAL_PROPERTIES {
            return Err(refused(&format!(
                "properties that are not required must be at most \
                 {MAX_OPTIONAL_PROPERTIES}, are {num_optional}"
            )));
        }
        if self.num_properties > MAX_PROPERTIES {
            return Err(refused(&format!(
                "properties must be at most {MAX_PROPERTIES} in all, are more"
            )));
        }
        Ok(())
    }
}

/// The keywords of one schema that `check_schema` would refuse as they stand.
pub fn complaints_of(members: &Map<String, Value>) -> Vec<&'static str> {
    let mut found = Vec::new();
    if check_bounds(members).is_err() {
        found.extend(["exclusiveMinimum", "exclusiveMaximum"]);
    }
    found.extend(COUNTS.iter().filter(|n| check_count(members, n).is_err()));
    if check_multiple(members.get("multipleOf")).is_err() {
        found.push("multipleOf");
    }
    let pattern = members.get("pattern").and_then(Value::as_str);
    if pattern.is_some_and(|text| check_expression("", text).is_err()) {
        found.push("pattern");
    }
    let patterns = members.get("patternProperties").and_then(Value::as_object);
    if patterns.is_some_and(|p| check_patterns(members, p).is_err()) {
        found.push("patternProperties");
    }
    for name in ["const", "enum", "maximum", "minimum"] {
        if members.get(name).is_some_and(has_large_number) {
            found.push(name);
        }
    }
    found
}

fn has_large_number(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_large_number),
        Value::Object(members) => members.values().any(has_large_number),
        Value::Number(number) => is_large(number),
        _ => false,
    }
}

fn is_large(number: &Number) -> bool {
    number.as_f64().is_none_or(|n| n.abs() >= MAX_NUMBER)
}

fn check_patterns(
    members: &Map<String, Value>,
    patterns: &Map<String, Value>,
) -> Outcome<()> {
    let closed =
        members.get("additionalProperties") == Some(&Value::Bool(false));
    let alone = closed
        && members
            .get("properties")
            .and_then(Value::as_object)
            .is_none_or(Map::is_empty);
    if patterns.len() > 1 || (!patterns.is_empty() && !alone) {
        return Err(refused(
            "patternProperties must have one pattern, no properties beside \
             it, and additionalProperties false",
        ));
    }
    patterns
        .keys()
        .try_for_each(|pattern| check_expression("patternProperties", pattern))
}

/// A backslash at the end, which stands before nothing, would be dropped.
pub fn check_expression(name: &str, expression: &str) -> Outcome<()> {
    let before_end = expression.trim_end_matches('\\').len();
    if (expression.len() - before_end) % 2 == 0 {
        return Ok(());
    }
    Err(refused(&format!("{name} must not end in a single backslash")))
}

/// Between bounds that lie near each other, or end at 0, one that is exclusive
/// would be drawn all the same; of integers it is another that is not.
fn check_bounds(members: &Map<String, Value>) -> Outcome<()> {
    let number = |name: &str| members.get(name).and_then(Value::as_f64);
    let (above, below) =
        (number("exclusiveMinimum"), number("exclusiveMaximum"));
    let is_integer = members.get("type").is_some_and(|t| t == "integer");
    if is_integer || (above.is_none() && below.is_none()) {
        return Ok(());
    }
    if below == Some(0.0) {
        return Err(refused(
            "exclusiveMaximum must not be 0, or type must be \"integer\"",
        ));
    }
    let least = above.into_iter().chain(number("minimum")).reduce(f64::max);
    let most = below.into_iter().chain(number("maximum")).reduce(f64::min);
    match (least, most) {
        (Some(least), Some(most)) if most - least < 1.0 => {
            Err(refused(&format!(
                "bounds of which one is exclusive must be 1 apart at least, \
                 are {least} and {most}"
            )))
        }
        _ => Ok(()),
    }
}

fn check_count(members: &Map<String, Value>, name: &str) -> Outcome<()> {
    match members.get(name).and_then(Value::as_f64) {
        Some(number) if number > MAX_COUNT as f64 => Err(refused(&format!(
            "{name} must be at most {MAX_COUNT}, is {number}"
        ))),
        _ => Ok(()),
    }
}

fn check_multiple(multiple: Option<&Value>) -> Outcome<()> {
    let Some(number) = multiple.and_then(Value::as_number) else {
        return Ok(());
    };
    let digits: String =
        number.to_string().chars().filter(|c| *c != '.').collect();
    let coefficient = digits.trim_end_matches('0');
    match coefficient.parse::<u64>() {
        Ok(value) if value <= MAX_MULTIPLE => Ok(()),
        _ => Err(refused(&format!(
            "multipleOf must have a value of at most {MAX_MULTIPLE} without \
             its point, is {number}"
        ))),
    }
}
