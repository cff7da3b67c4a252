//! What llguidance (1.9.1) says of a schema or expression that it refuses, in
//! this program's words: what must be, and what is.

const TYPES: &str = "null, boolean, integer, number, string, array or object";

/// Said in other words wherever they stand.
const SENTENCES: [(&str, &str); 6] = [
    (
        "oneOf constraints are not supported",
        "oneOf must have alternatives of which every value meets one at most, \
         as their types or constants say: else write anyOf",
    ),
    ("anyOf is empty", "enum and anyOf must have at least 1 value, have 0"),
    (
        "min/maxProperties only supported",
        "minProperties and maxProperties must be absent where a property is \
         not required",
    ),
    (
        "circular references with sibling keys",
        "$ref that leads back to itself must stand without other keywords",
    ),
    (
        "type must be a string",
        "type must be the name of a type or a list of such names",
    ),
    (
        "schema must be an object or boolean",
        "a schema must be an object, true or false",
    ),
];

pub fn reworded(message: &str) -> String {
    // It cuts what it shows in the middle of a character.
    if message.starts_with("panic:") {
        return "a schema's keywords must have the types that JSON Schema says"
            .to_owned();
    }
    let line = message.lines().next().unwrap_or_default();
    let behind =
        |words: &str| line.find(words).map(|at| &line[at + words.len()..]);
    // What a client wrote stands behind these, and may be any sentence.
    let quotes = line.starts_with("Invalid type: ");
    if let Some((_, ours)) =
        SENTENCES.iter().find(|(theirs, _)| !quotes && message.contains(theirs))
    {
        return (*ours).to_owned();
    }
    if let Some(name) = behind("Invalid type: ") {
        return format!("type must be {TYPES}, is {}", quoted(name));
    }
    if let Some(why) = behind("Unsatisfiable schema: ") {
        return format!(
            "a schema must have values that meet it, has none: {why}"
        );
    }
    expected(line).unwrap_or_else(|| message.to_owned())
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// "Expected array for 'required', got 3".
fn expected(line: &str) -> Option<String> {
    let (_, behind) = line.split_once("Expected ")?;
    let (kind, behind) = behind.split_once(" for '")?;
    let (name, behind) = behind.split_once('\'')?;
    let (_, found) = behind.split_once("got ")?;
    let kind = match kind {
        "f64" => "a number",
        "positive integer" => "a whole number",
        "array" => "a list",
        "object" => "an object",
        "string" => "a string",
        other => other,
    };
    Some(format!("{name} must be {kind}, is {found}"))
}
