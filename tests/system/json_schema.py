"""Whether a value is as a JSON schema says, of the keywords that the server's
own document has. An object may have no members but those that are named: what a
server says beyond its document is a finding here."""

from __future__ import annotations

import re

TYPES = {"object": dict, "array": list, "string": str, "null": type(None),
         "boolean": bool, "number": (int, float), "integer": int}
CHECKED = {"type", "const", "enum", "anyOf", "allOf", "required", "properties",
           "additionalProperties", "propertyNames", "items", "minItems",
           "maxItems", "minLength", "maxLength", "maxProperties", "pattern",
           "minimum", "maximum", "description", "contentMediaType", "$ref"}


def has_type(value, name: str) -> bool:
    if isinstance(value, bool) and name in ("number", "integer"):
        return False
    return isinstance(value, TYPES[name])


class Schemas:
    """Of a document."""

    def __init__(self, document: dict):
        self.named = document["components"]["schemas"]

    def complaints(self, value, schema: dict, at: str = "$") -> list[str]:
        """Nothing where the value is as the schema says."""
        assert set(schema) <= CHECKED, set(schema) - CHECKED
        if "$ref" in schema:
            return self.complaints(value, self.resolved(schema), at)
        found = self._of_value(value, schema, at)
        if "anyOf" in schema:
            each = [self.complaints(value, form, at)
                    for form in schema["anyOf"]]
            if all(each):
                found += min(each, key=len)
        for part in schema.get("allOf", []):
            found += self.complaints(value, part, at)
        if isinstance(value, dict):
            found += self._of_members(value, schema, at)
        for i, item in enumerate(value if isinstance(value, list) else []):
            found += self.complaints(item, schema.get("items", {}),
                                     f"{at}[{i}]")
        return found

    def resolved(self, schema: dict) -> dict:
        while "$ref" in schema:
            schema = self.named[schema["$ref"].rsplit("/", 1)[1]]
        return schema

    def _of_value(self, value, schema: dict, at: str) -> list[str]:
        types = schema.get("type", [])
        types = [types] if isinstance(types, str) else types
        found = []
        if types and not any(has_type(value, name) for name in types):
            return [f"{at} is {value!r:.80}, no {types}"]
        if "const" in schema and value != schema["const"]:
            found.append(f"{at} is {value!r:.80}, not {schema['const']!r}")
        if "enum" in schema and value not in schema["enum"]:
            found.append(f"{at} is {value!r:.80}, none of {schema['enum']}")
        if has_type(value, "number"):
            if not (schema.get("minimum", value) <= value
                    <= schema.get("maximum", value)):
                found.append(f"{at} is {value}, beyond its limits")
        for kind, least, most in [(list, "minItems", "maxItems"),
                                  (str, "minLength", "maxLength")]:
            if isinstance(value, kind) and not (
                    schema.get(least, 0) <= len(value)
                    <= schema.get(most, len(value))):
                found.append(f"{at} has {len(value)}, beyond its limits")
        if isinstance(value, str) and "pattern" in schema:
            if not re.search(schema["pattern"], value):
                found.append(f"{at} is {value!r}, not {schema['pattern']}")
        return found

    def _of_members(self, value: dict, schema: dict, at: str) -> list[str]:
        found = [f"{at} lacks {name}" for name in schema.get("required", [])
                 if name not in value]
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties", "anyOf" in schema
                            or "allOf" in schema or "properties" not in schema)
        for name, member in value.items():
            if name in properties:
                found += self.complaints(member, properties[name],
                                         f"{at}.{name}")
            elif others is False:
                found.append(f"{at}.{name} is not documented")
            elif others is not True:
                found += self.complaints(member, others, f"{at}.{name}")
        return found
