//! The places of a JSON schema, and which of them a reference names: JSON
//! pointers (RFC 6901), anchors and ids of this one document. No other document
//! is read, be it here or on a network.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::failure::{Code, Failure, Outcome};
use crate::schema_uri::{resolved, split_fragment};

/// Names of members and numbers of items on the way from the root.
pub type Place = Vec<String>;

/// How what stands behind a keyword is made of schemas.
#[derive(Clone, Copy, PartialEq)]
pub enum Parts {
    None,
    One,
    List,
    Named,
}

pub fn parts_of(keyword: &str, value: &Value) -> Parts {
    match keyword {
        "properties" | "patternProperties" | "$defs" | "definitions"
        | "dependentSchemas" | "dependencies" => Parts::Named,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Parts::List,
        "items" if value.is_array() => Parts::List,
        "items"
        | "additionalItems"
        | "additionalProperties"
        | "not"
        | "if"
        | "then"
        | "else"
        | "contains"
        | "propertyNames"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "contentSchema" => Parts::One,
        _ => Parts::None,
    }
}

/// As a JSON pointer.
pub fn pointer(place: &[String]) -> String {
    let parts: Vec<String> = place
        .iter()
        .map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1")))
        .collect();
    parts.concat()
}

pub struct Places<'a> {
    root: &'a Value,
    draft: u32,
    /// By their addresses, without fragments.
    resources: HashMap<String, Place>,
    /// By address and name.
    anchors: HashMap<(String, String), Place>,
    /// How many resources have a dynamic anchor of this name.
    num_dynamic: HashMap<String, usize>,
    num_recursive: usize,
}

impl<'a> Places<'a> {
    pub fn of(root: &'a Value) -> Self {
        let mut places = Places {
            root,
            draft: draft_of(root),
            resources: HashMap::new(),
            anchors: HashMap::new(),
            num_dynamic: HashMap::new(),
            num_recursive: 0,
        };
        // The root has the address that its own id says, and none besides.
        places.resources.insert(String::new(), Place::new());
        places.look(root, "", &mut Place::new());
        places
    }

    /// The year of the standard that the root names: 2020 where it names none.
    pub fn draft(&self) -> u32 {
        self.draft
    }

    fn look(&mut self, schema: &Value, base: &str, place: &mut Place) {
        let Value::Object(members) = schema else { return };
        let base = &self.base_of(members, base);
        if self.id_of(members).is_some() {
            self.resources.entry(base.clone()).or_insert_with(|| place.clone());
        }
        self.look_at_anchors(members, base, place);
        for (keyword, value) in members {
            let parts = parts_of(keyword, value);
            place.push(keyword.clone());
            match (parts, value) {
                (Parts::One, _) => self.look(value, base, place),
                (Parts::List, Value::Array(items)) => {
                    for (i, item) in items.iter().enumerate() {
                        place.push(i.to_string());
                        self.look(item, base, place);
                        place.pop();
                    }
                }
                (Parts::Named, Value::Object(named)) => {
                    for (name, item) in named {
                        place.push(name.clone());
                        self.look(item, base, place);
                        place.pop();
                    }
                }
                _ => {}
            }
            place.pop();
        }
    }

    fn look_at_anchors(
        &mut self,
        members: &Map<String, Value>,
        base: &str,
        place: &Place,
    ) {
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        // Before 2019 an id was an anchor where it was a fragment alone.
        let old = text(self.id_keyword())
            .and_then(|id| id.strip_prefix('#'))
            .filter(|_| self.draft < 2019);
        let dynamic = text("$dynamicAnchor");
        for name in [old, text("$anchor"), dynamic].into_iter().flatten() {
            self.anchors
                .entry((base.to_owned(), name.to_owned()))
                .or_insert_with(|| place.clone());
        }
        if let Some(name) = dynamic {
            *self.num_dynamic.entry(name.to_owned()).or_default() += 1;
        }
        if members.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
            self.num_recursive += 1;
        }
    }

    fn id_keyword(&self) -> &'static str {
        if self.draft == 4 {
            "id"
        } else {
            "$id"
        }
    }

    fn id_of<'m>(&self, members: &'m Map<String, Value>) -> Option<&'m str> {
        let id = members.get(self.id_keyword())?.as_str()?;
        (!id.starts_with('#')).then_some(id)
    }

    /// The address of a schema's resource, which stands in that of `base`.
    pub fn base_of(&self, members: &Map<String, Value>, base: &str) -> String {
        match self.id_of(members) {
            Some(id) => resolved(base, split_fragment(id).0),
            None => base.to_owned(),
        }
    }

    /// What `reference` names, seen from a resource with the address `base`.
    pub fn named(&self, reference: &str, base: &str) -> Outcome<Place> {
        let (address, fragment) = split_fragment(reference);
        let address = resolved(base, address);
        let Some(resource) = self.resources.get(&address) else {
            return Err(refused(&format!(
                "$ref must point into its own schema, as no other is read, \
                 is {}",
                Value::from(reference)
            )));
        };
        let place =
            match fragment.strip_prefix('/') {
                _ if fragment.is_empty() => Some(resource.clone()),
                Some(pointer) => Some(
                    resource
                        .iter()
                        .cloned()
                        .chain(pointer.split('/').map(|part| {
                            part.replace("~1", "/").replace("~0", "~")
                        }))
                        .collect(),
                ),
                None => self.anchors.get(&(address, fragment)).cloned(),
            };
        place.filter(|place| self.at(place).is_some()).ok_or_else(|| {
            refused(&format!(
                "$ref must point to something that its schema has, is {}",
                Value::from(reference)
            ))
        })
    }

    /// Whether a dynamic reference is as one that is not.
    pub fn is_settled(&self, keyword: &str, reference: &str) -> bool {
        if keyword == "$recursiveRef" {
            return self.num_recursive <= 1;
        }
        let name = split_fragment(reference).1;
        self.num_dynamic.get(&name).is_none_or(|count| *count <= 1)
    }

    pub fn at(&self, place: &[String]) -> Option<&'a Value> {
        place.iter().try_fold(self.root, |value, part| match value {
            Value::Object(members) => members.get(part),
            Value::Array(items) => {
                let is_number = part.bytes().all(|c| c.is_ascii_digit())
                    && (part == "0" || !part.starts_with('0'));
                items.get(part.parse::<usize>().ok().filter(|_| is_number)?)
            }
            _ => None,
        })
    }

    /// The address of the resource that a place stands in.
    pub fn base_at(&self, place: &[String]) -> String {
        let mut base = String::new();
        for end in 0..place.len() {
            if let Some(Value::Object(members)) = self.at(&place[..end]) {
                base = self.base_of(members, &base);
            }
        }
        base
    }
}

fn refused(what: &str) -> Failure {
    Failure::new(Code::InvalidArgument, what)
}

fn draft_of(root: &Value) -> u32 {
    let named = root.get("$schema").and_then(Value::as_str).unwrap_or("");
    [
        ("draft-03", 3),
        ("draft-04", 4),
        ("draft-06", 6),
        ("draft-07", 7),
        ("2019-09", 2019),
    ]
    .into_iter()
    .find(|(name, _)| named.contains(name))
    .map_or(2020, |(_, draft)| draft)
}
