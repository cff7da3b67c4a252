//! Schemas of which as much is held as can be: those of tools, for which a call
//! that is not held to all of its schema is better than none.

use llguidance::api::ParserLimits;
use llguidance::{GrammarBuilder, JsonCompileOptions};
use serde_json::{json, Value};

use crate::failure::{fenced, Code, Failure, Outcome};
use crate::held_schema::{held, Held, Unheld};
use crate::schema_limits::check_schema;

/// What is given up, one step after the other, until the rest compiles.
const STEPS: [&[&str]; 4] = [
    &[],
    &["oneOf"],
    &["oneOf", "minProperties", "maxProperties"],
    &[
        "oneOf",
        "minProperties",
        "maxProperties",
        "pattern",
        "patternProperties",
        "format",
        "multipleOf",
    ],
];

/// Fails where a reference leads nowhere. Of a schema of which nothing can be
/// held, "" is not, and any object meets what is left.
pub fn fitting(schema: &Value) -> Outcome<Held> {
    for given_up in STEPS {
        let read = held(schema, Unheld::LeftOut(given_up))?;
        if compiles(&read.schema) {
            return Ok(read);
        }
    }
    Ok(Held {
        schema: json!({ "type": "object" }),
        unheld: vec![String::new()],
    })
}

fn compiles(schema: &Value) -> bool {
    let tried = fenced(|| {
        check_schema(schema, schema.to_string().len())?;
        let builder = GrammarBuilder::new(None, ParserLimits::default());
        JsonCompileOptions::default()
            .json_to_llg_with_overrides(builder, schema.clone())
            .map(|_| ())
            .map_err(|error| Failure::new(Code::InvalidArgument, error))
    });
    tried.is_ok()
}
