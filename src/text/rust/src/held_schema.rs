//! What an answer is held to of a JSON schema: the keywords that llguidance
//! (1.9.1) follows, with references to definitions that are all in one place,
//! and the names of those that it cannot follow.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::failure::{Code, Failure, Outcome};
use crate::schema_limits::complaints_of;
use crate::schema_places::{parts_of, pointer, Parts, Place, Places};

/// What becomes of a keyword that no answer can be held to.
#[derive(Clone, Copy)]
pub enum Unheld<'a> {
    Refused,
    /// And so are these, which could be followed where they stand alone.
    LeftOut(&'a [&'a str]),
}

pub struct Held {
    pub schema: Value,
    /// What is not followed, as "properties.name.keyword".
    pub unheld: Vec<String>,
}

const ASSERTIONS: [&str; 17] = [
    "$ref",
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
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
    "required",
    "type",
];
const APPLICATORS: [&str; 9] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "items",
    "oneOf",
    "patternProperties",
    "prefixItems",
    "properties",
];
/// By the first draft that has them.
const UNFOLLOWED: [(&str, u32); 15] = [
    ("dependencies", 3),
    ("not", 4),
    ("uniqueItems", 3),
    ("contains", 6),
    ("propertyNames", 6),
    ("else", 7),
    ("if", 7),
    ("then", 7),
    ("dependentRequired", 2019),
    ("dependentSchemas", 2019),
    ("maxContains", 2019),
    ("minContains", 2019),
    ("unevaluatedItems", 2019),
    ("unevaluatedProperties", 2019),
    ("$dynamicRef", 2020),
];
/// What may speak of an object's members, beside its own list of them.
const OTHERS_OF_MEMBERS: [&str; 9] = [
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "additionalProperties",
    "allOf",
    "anyOf",
    "dependentSchemas",
    "if",
    "oneOf",
];
/// Those that llguidance knows; the others say nothing of a value.
const FORMATS: [&str; 11] = [
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
    "uri",
    "unknown",
];
/// What definitions may take, of what the schema takes: those that stand
/// within one another are written several times.
const MAX_GROWTH: usize = 4;
const LEAST_ROOM: usize = 64 << 10;
const DEFINITIONS: &str = "$defs";

/// Reads `schema`, which keeps its order of names.
pub fn held(schema: &Value, unheld: Unheld) -> Outcome<Held> {
    let mut reader = Reader {
        places: Places::of(schema),
        policy: unheld,
        unheld: Vec::new(),
        refused: Vec::new(),
        names: HashMap::new(),
        pending: Vec::new(),
    };
    let mut read = reader.read(schema, "", &mut Place::new())?;
    let mut definitions = Map::new();
    let most = LEAST_ROOM.max(MAX_GROWTH * schema.to_string().len());
    let mut num_bytes = 0;
    while let Some(mut place) = reader.pending.pop() {
        let name = reader.names[&place].clone();
        let base = reader.places.base_at(&place);
        let target = reader.places.at(&place).unwrap_or(&Value::Null);
        let definition = reader.read(target, &base, &mut place)?;
        num_bytes += definition.to_string().len();
        if num_bytes > most {
            let what = format!(
                "what $ref points to must be at most {most} bytes, each once, \
                 is more"
            );
            return Err(Failure::new(Code::ResourceExhausted, what));
        }
        definitions.insert(name, definition);
    }
    if !reader.refused.is_empty() {
        return Err(refusal(&reader.refused));
    }
    if let Value::Object(members) = &mut read {
        if let Some(draft) = schema.get("$schema") {
            members.insert("$schema".to_owned(), draft.clone());
        }
        if !definitions.is_empty() {
            let definitions = Value::Object(definitions);
            members.insert(DEFINITIONS.to_owned(), definitions);
        }
    }
    let mut seen = std::collections::HashSet::new();
    reader.unheld.retain(|name| seen.insert(name.clone()));
    Ok(Held { schema: read, unheld: reader.unheld })
}

fn refusal(places: &[String]) -> Failure {
    let named: Vec<String> =
        places.iter().map(|p| Value::from(p.as_str()).to_string()).collect();
    let verb = if named.len() == 1 { "is" } else { "are" };
    let what = format!(
        "keywords must be ones that an answer can be held to, which {} {verb} \
         not",
        named.join(", ")
    );
    Failure::new(Code::InvalidArgument, what)
}

struct Reader<'a> {
    places: Places<'a>,
    policy: Unheld<'a>,
    unheld: Vec<String>,
    /// As JSON pointers.
    refused: Vec<String>,
    /// Of what references point to.
    names: HashMap<Place, String>,
    pending: Vec<Place>,
}

impl Reader<'_> {
    fn read(
        &mut self,
        schema: &Value,
        base: &str,
        place: &mut Place,
    ) -> Outcome<Value> {
        let Value::Object(members) = schema else { return Ok(schema.clone()) };
        let base = self.places.base_of(members, base);
        let mut read = Map::new();
        for (keyword, value) in members {
            place.push(keyword.clone());
            let told = self.read_member(members, keyword, value, &base, place);
            place.pop();
            if let Some((keyword, value)) = told? {
                put(&mut read, keyword, value);
            }
        }
        if self.listed(members).is_some() {
            read.insert("additionalProperties".to_owned(), false.into());
        }
        if let Unheld::LeftOut(_) = self.policy {
            self.leave_out_excess(&mut read, place);
            if members.contains_key("patternProperties") {
                open_names(&mut read);
            }
        }
        Ok(Value::Object(read))
    }

    /// What stands for one member; nothing where it says nothing of a value.
    fn read_member(
        &mut self,
        members: &Map<String, Value>,
        keyword: &str,
        value: &Value,
        base: &str,
        place: &mut Place,
    ) -> Outcome<Option<(String, Value)>> {
        if let ("$ref", Value::String(reference)) = (keyword, value) {
            return self.reference(reference, base).map(Some);
        }
        if let ("$dynamicRef" | "$recursiveRef", Value::String(reference)) =
            (keyword, value)
        {
            if self.places.draft() < 2019 {
                return Ok(None);
            }
            if self.places.is_settled(keyword, reference) {
                return self.reference(reference, base).map(Some);
            }
            return Ok(self.leave_out(place));
        }
        if keyword == "format" {
            return Ok(self.read_format(value, place));
        }
        if let ("propertyNames", Some(names)) = (keyword, self.listed(members))
        {
            return self.read_listed(members, names, base, place).map(Some);
        }
        if keyword == "unevaluatedProperties" && self.closes_names(members) {
            let rest = self.read(value, base, place)?;
            return Ok(Some(("additionalProperties".to_owned(), rest)));
        }
        if self.is_given_up(keyword) {
            self.leave_out(place);
            let as_any = keyword == "oneOf" && !members.contains_key("anyOf");
            return match as_any {
                true => self
                    .parts(keyword, value, base, place)
                    .map(|parts| Some(("anyOf".to_owned(), parts))),
                false => Ok(None),
            };
        }
        if ASSERTIONS.contains(&keyword) {
            return Ok(Some((keyword.to_owned(), value.clone())));
        }
        if APPLICATORS.contains(&keyword) {
            let parts = self.parts(keyword, value, base, place)?;
            return Ok(Some((keyword.to_owned(), parts)));
        }
        let draft = self.places.draft();
        let is_known = UNFOLLOWED
            .iter()
            .any(|(name, since)| *name == keyword && *since <= draft);
        if !is_known || says_nothing(members, keyword, value) {
            return Ok(None);
        }
        Ok(self.leave_out(place))
    }

    /// Nothing else in a schema speaks of an object's members, so that those
    /// that are not evaluated are those that it does not name.
    fn closes_names(&self, members: &Map<String, Value>) -> bool {
        self.places.draft() >= 2019
            && !OTHERS_OF_MEMBERS.iter().any(|k| members.contains_key(*k))
    }

    /// What `propertyNames` says where a list of properties or one pattern says
    /// it too.
    fn listed<'m>(&self, members: &'m Map<String, Value>) -> Option<Names<'m>> {
        if self.places.draft() < 6
            || members.contains_key("properties")
            || members.contains_key("patternProperties")
        {
            return None;
        }
        let names = members.get("propertyNames")?.as_object()?;
        if names.get("type").is_some_and(|kind| kind != "string") {
            return None;
        }
        let mut asked = names.iter().filter(|(name, _)| *name != "type");
        let ((keyword, value), None) = (asked.next()?, asked.next()) else {
            return None;
        };
        match (keyword.as_str(), value) {
            ("pattern", Value::String(pattern)) => Some(Names::Like(pattern)),
            ("enum", Value::Array(list))
                if list.iter().all(Value::is_string) =>
            {
                let rest = members.get("additionalProperties");
                let num_bytes = rest.map_or(0, |rest| rest.to_string().len());
                let fits = list.len() * num_bytes <= LEAST_ROOM;
                fits.then_some(Names::Listed(list))
            }
            _ => None,
        }
    }

    /// With what other members are in each.
    fn read_listed(
        &mut self,
        members: &Map<String, Value>,
        names: Names,
        base: &str,
        place: &mut Place,
    ) -> Outcome<(String, Value)> {
        let any = Value::Bool(true);
        let rest = members.get("additionalProperties").unwrap_or(&any);
        let rest = self.read(rest, base, place)?;
        let (keyword, named) = match names {
            Names::Like(pattern) => (
                "patternProperties",
                Map::from_iter([(pattern.to_owned(), rest)]),
            ),
            Names::Listed(list) => (
                "properties",
                list.iter()
                    .filter_map(Value::as_str)
                    .map(|name| (name.to_owned(), rest.clone()))
                    .collect(),
            ),
        };
        Ok((keyword.to_owned(), named.into()))
    }

    fn is_given_up(&self, keyword: &str) -> bool {
        match self.policy {
            Unheld::Refused => false,
            Unheld::LeftOut(more) => more.contains(&keyword),
        }
    }

    /// A reference to where its target will stand.
    fn reference(
        &mut self,
        reference: &str,
        base: &str,
    ) -> Outcome<(String, Value)> {
        let place = self.places.named(reference, base)?;
        let is_strict = matches!(self.policy, Unheld::Refused);
        if is_strict && place.is_empty() {
            return Ok(("$ref".to_owned(), "#".into()));
        }
        let next = self.names.len().to_string();
        let name = match self.names.get(&place) {
            Some(name) => name.clone(),
            None => {
                self.names.insert(place.clone(), next.clone());
                self.pending.push(place);
                next
            }
        };
        let target = format!("#/{DEFINITIONS}/{name}");
        Ok(("$ref".to_owned(), target.into()))
    }

    fn read_format(
        &mut self,
        value: &Value,
        place: &Place,
    ) -> Option<(String, Value)> {
        let known = match value {
            Value::String(name) => FORMATS.contains(&name.as_str()),
            _ => true, // It is complained of.
        };
        if known && !self.is_given_up("format") {
            return Some(("format".to_owned(), value.clone()));
        }
        self.unheld.push(place.join("."));
        None
    }

    fn leave_out(&mut self, place: &Place) -> Option<(String, Value)> {
        match self.policy {
            Unheld::Refused => self.refused.push(pointer(place)),
            Unheld::LeftOut(_) => self.unheld.push(place.join(".")),
        }
        None
    }

    fn parts(
        &mut self,
        keyword: &str,
        value: &Value,
        base: &str,
        place: &mut Place,
    ) -> Outcome<Value> {
        match (parts_of(keyword, value), value) {
            (Parts::One, _) => self.read(value, base, place),
            (Parts::List, Value::Array(items)) => {
                let mut read = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    place.push(i.to_string());
                    let item = self.read(item, base, place);
                    place.pop();
                    read.push(item?);
                }
                Ok(Value::Array(read))
            }
            (Parts::Named, Value::Object(named)) => {
                let mut read = Map::new();
                for (name, item) in named {
                    place.push(name.clone());
                    let item = self.read(item, base, place);
                    place.pop();
                    read.insert(name.clone(), item?);
                }
                Ok(Value::Object(read))
            }
            _ => Ok(value.clone()),
        }
    }

    /// Keywords beyond what llguidance follows in bounded time, or to the
    /// letter.
    fn leave_out_excess(
        &mut self,
        read: &mut Map<String, Value>,
        place: &Place,
    ) {
        for keyword in complaints_of(read) {
            let Some(value) = read.shift_remove(keyword) else { continue };
            let mut of = place.clone();
            of.push(keyword.to_owned());
            self.unheld.push(of.join("."));
            // What is near it may still hold.
            let bound = match keyword {
                "exclusiveMinimum" => "minimum",
                "exclusiveMaximum" => "maximum",
                _ => continue,
            };
            if value.is_number() && !read.contains_key(bound) {
                read.insert(bound.to_owned(), value);
            }
        }
    }
}

/// What patterns of names allowed is no longer known: nothing is forbidden then
/// that `required` may ask for.
fn open_names(read: &mut Map<String, Value>) {
    let closed = read.get("additionalProperties") == Some(&Value::Bool(false));
    if !closed || read.contains_key("patternProperties") {
        return;
    }
    let properties = read.get("properties").and_then(Value::as_object);
    let all_known = read
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .all(|name| properties.is_some_and(|p| p.contains_key(name)));
    if !all_known {
        read.shift_remove("additionalProperties");
    }
}

/// Two references of one schema, of which one was dynamic, are both met.
fn put(read: &mut Map<String, Value>, keyword: String, value: Value) {
    if !read.contains_key(&keyword) {
        read.insert(keyword, value);
        return;
    }
    let both = Map::from_iter([(keyword, value)]);
    match read.get_mut("allOf") {
        Some(Value::Array(parts)) => parts.push(Value::Object(both)),
        _ => {
            let parts = Value::Array(vec![Value::Object(both)]);
            read.insert("allOf".to_owned(), parts);
        }
    }
}

/// Names of members, as `propertyNames` says them.
enum Names<'a> {
    Listed(&'a [Value]),
    Like(&'a str),
}

/// Whether every value meets it, as it stands there.
fn says_nothing(
    members: &Map<String, Value>,
    keyword: &str,
    value: &Value,
) -> bool {
    let is_any = |schema: &Value| {
        schema == &Value::Bool(true)
            || schema.as_object().is_some_and(Map::is_empty)
    };
    match keyword {
        "uniqueItems" => value == &Value::Bool(false),
        "not" => value == &Value::Bool(false),
        "if" => !["then", "else"].iter().any(|k| members.contains_key(*k)),
        "then" | "else" => !members.contains_key("if") || is_any(value),
        "minContains" | "maxContains" => !members.contains_key("contains"),
        "dependencies" | "dependentRequired" | "dependentSchemas" => {
            value.as_object().is_some_and(Map::is_empty)
        }
        "unevaluatedItems" | "unevaluatedProperties" => is_any(value),
        // Names are strings.
        "propertyNames" => {
            is_any(value)
                || value.as_object().is_some_and(|names| {
                    names.len() == 1
                        && names.get("type").is_some_and(|t| t == "string")
                })
        }
        _ => false,
    }
}
