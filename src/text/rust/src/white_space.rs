//! What may stand between the tokens of a JSON answer.

use llguidance::derivre::{RegexAst, RegexBuilder};
use serde_json::{json, Map, Value};

use crate::failure::{Code, Failure, Outcome};

/// A space, or a new line with what a pretty printer indents by. Without a bound
/// small models may go on with white space until their answer's length ends: of
/// 8 answers of SmolLM2-135M at temperature 1.2 two did.
const USUAL: &str = r"\x20|\n(\x20{0,20}|\t{0,6})";
/// Of nodes, to see what an expression matches besides.
const MAX_LOOK: u64 = 50_000;

/// `schema`, with what llguidance reads of white space in it. `asked`: an
/// expression in place of the usual one, "" for none at all.
pub fn with_white_space(schema: Value, asked: Option<&str>) -> Outcome<Value> {
    let options = match asked {
        None => json!({ "whitespace_pattern": USUAL }),
        Some("") => json!({ "whitespace_flexible": false }),
        Some(pattern) => {
            let pattern = of_json(pattern);
            check(&pattern)?;
            json!({ "whitespace_pattern": pattern })
        }
    };
    let mut members = match schema {
        Value::Object(members) => members,
        Value::Bool(true) => Map::new(),
        other => return Ok(other),
    };
    members.insert("x-guidance".to_owned(), options);
    Ok(Value::Object(members))
}

/// "\s" is what JSON calls white space, not what Unicode does.
fn of_json(pattern: &str) -> String {
    let mut of_json = String::new();
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match (c, rest.clone().next()) {
            ('\\', Some('s')) => of_json.push_str(r"[\x20\t\r\n]"),
            ('\\', Some(escaped)) => of_json.extend([c, escaped]),
            _ => {
                of_json.push(c);
                continue;
            }
        }
        rest.next();
    }
    of_json
}

/// Whatever it matches must be white space, or the answer would be no JSON.
fn check(pattern: &str) -> Outcome<()> {
    let refused = |what: &str| {
        let what = format!("the pattern of white space {what}");
        Failure::new(Code::InvalidArgument, what)
    };
    let no_expression = |error: &dyn std::fmt::Display| {
        refused(&format!("must be an expression: {error}"))
    };
    let space = RegexAst::Regex(r"[\x20\t\r\n]*".to_owned());
    let asked = RegexAst::Regex(pattern.to_owned());
    let others = RegexAst::And(vec![asked, RegexAst::Not(Box::new(space))]);
    let mut builder = RegexBuilder::new();
    let others = builder.mk(&others).map_err(|e| no_expression(&e))?;
    let mut others = builder
        .to_regex_limited(others, MAX_LOOK)
        .map_err(|_| refused("must be simpler"))?;
    if others.always_empty() {
        return Ok(());
    }
    Err(refused("must match spaces, tabs and line ends alone"))
}
