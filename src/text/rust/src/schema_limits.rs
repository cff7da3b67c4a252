//! JSON schemas that llguidance (1.9.1) cannot compile in bounded time, refused
//! before it sees them. Its fuel pays for nodes of regular expressions; what it
//! looks through to see whether an intersection is empty costs nothing. Of 30
//! patterns in an allOf, and of a multipleOf of 99,999,999, it was not back
//! after 40 s and 0.7 GB; 10,000 properties that may be absent took 46 s.

use serde_json::{Map, Value};

use crate::failure::{Code, Failure, Outcome};

/// Of an object: each that may be absent costs as much as there are others.
const MAX_OPTIONAL_PROPERTIES: usize = 400;
const MAX_PROPERTIES: usize = 2000;
/// Without its point: 0.25 is 25.
const MAX_MULTIPLE: u64 = 1000;
/// Of a schema with anyOf within allOf, which are multiplied.
const MAX_PRODUCT_BYTES: usize = 8 << 10;

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
        if members.get("pattern").is_some_and(Value::is_string) {
            self.patterns = true;
        }
        self.look_at_names(members)?;
        check_multiple(members.get("multipleOf"))
    }

    fn look_at_names(&mut self, members: &Map<String, Value>) -> Outcome<()> {
        let object = |name: &str| members.get(name).and_then(Value::as_object);
        if let Some(patterns) = object("patternProperties") {
            let closed = members.get("additionalProperties")
                == Some(&Value::Bool(false));
            let alone =
                closed && object("properties").is_none_or(Map::is_empty);
            if patterns.len() > 1 || (!patterns.is_empty() && !alone) {
                return Err(refused(
                    "patternProperties must have one pattern, no properties \
                     beside it, and additionalProperties false",
                ));
            }
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
