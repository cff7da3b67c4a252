#!/usr/bin/env python3
"""Schemathesis against a running server and its own OpenAPI document: requests
that the document allows and others, in every form that it thinks of. No answer
may be the server's fault (5xx), and each is as the document says.

    schemathesis_test.py PATH_TO_WINNOW [--minutes N]

Without --minutes a short run, with the same requests every time; with it, new
ones until the time is over. Three passes, as most requests that have every
field are refused for fields that do not go together:
  whole     the document as it is
  parted    without such fields: what it does not allow must be refused
  answered  what the document allows, with values that fit the model: many
            must be answered (200)
"""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "system"))

from scripted_model import write_scripted_model  # noqa: E402
from serve_process import Server  # noqa: E402

TEMPLATE = ("<s>{% for message in messages %}{{ message['content'] or '' }}"
            "{% endfor %}{% if tools %}{# <tool_call> #}{% endif %}")
SCRIPTS = {"greet": ["Hello", ", ", "you", "!"],
           "look": ["I look.", "<tool_call>{\"name\": \"weather\", ",
                    "\"arguments\": {\"city\": \"Oslo\"}}</tool_call>"]}
CHECKS = ["not_a_server_error", "status_code_conformance",
          "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance", "unsupported_method"]
EXAMPLES, MORE_EXAMPLES = 25, 200  # an operation; of a run of minutes
LEAST_ANSWERED = 0.8
# Of a client's own choosing, and then right: an error of status 504.
DEADLINE = ["timeout"]
APART = ["tool_choice", "stream_options", "winnow", "top_logprobs",
         "guided_json", "guided_regex", "guided_grammar", "structured_outputs",
         "output_config", "output_format", "text"]
UNFIT = APART + ["guided_choice", "response_format", "min_tokens",
                 "chat_template_kwargs", "add_special_tokens"]
EARLIER = ["EarlierMessage", "EarlierItem"]
FITTING = {"max_tokens": 9, "max_completion_tokens": 9, "max_output_tokens": 9,
           "n": 2}


def without(document: dict, names: list[str]) -> dict:
    """The document, requests without these fields."""
    document = json.loads(json.dumps(document))
    for name, schema in document["components"]["schemas"].items():
        if name.endswith("Request"):
            for field in names:
                schema.get("properties", {}).pop(field, None)
    return document


def only_last(schema):
    """Without the forms of which the last message may be none."""
    if isinstance(schema, dict):
        return {name: only_last(each) for name, each in schema.items()}
    if not isinstance(schema, list):
        return schema
    return [only_last(each) for each in schema
            if not (isinstance(each, dict)
                    and each.get("$ref", "").split("/")[-1] in EARLIER)]


def fitting(document: dict) -> dict:
    document = only_last(without(document, UNFIT))
    schemas = document["components"]["schemas"]
    for name, schema in schemas.items():
        properties = schema.get("properties", {})
        for field in FITTING if name.endswith("Request") else []:
            if field in properties:
                # No tokens fit an echo alone.
                properties[field]["minimum"] = 1
                properties[field]["maximum"] = FITTING[field]
    schemas["CompletionRequest"]["properties"]["prompt"]["anyOf"] = [
        {"type": "string", "minLength": 1},
        {"$ref": "#/components/schemas/Tokens1"}]
    return document


class Run:
    """A server, and what schemathesis says of it."""

    def __init__(self, winnow: str, folder: Path, seconds: float | None):
        self.folder, self.seconds = folder, seconds
        self.server = Server(winnow, "--served-model-name", "m",
                             "--default-max-tokens", "8", model=str(folder))
        self.document = without(
            json.loads(self.server.ask("GET", "/openapi.json")[2]), DEADLINE)
        self.findings = []

    def do(self, name: str, document: dict, *checks: str,
           mode: str = "all") -> None:
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(document))
        length = (["--max-time", f"{self.seconds:.0f}"] if self.seconds
                  else ["--seed", "1", "--generation-database", "none"])
        print(f"pass: {name}", flush=True)
        status = subprocess.run(
            [Path(sys.executable).parent / "schemathesis", "run", file,
             "--url", f"http://127.0.0.1:{self.server.port}",
             "--phases", "coverage,fuzzing", "--mode", mode,
             "--checks", ",".join([*CHECKS, *checks]),
             "--max-examples", str(MORE_EXAMPLES if self.seconds else EXAMPLES),
             "--request-timeout", "60",
             "--suppress-health-check", "all", "--continue-on-failure",
             "--warnings", "off", "--no-color", *length],
            cwd=self.folder, check=False).returncode
        if status != 0:
            self.findings.append(f"{name}: schemathesis ends with {status}")
        if self.server.ask("GET", "/health")[0] != 200:
            self.findings.append(f"{name}: the server is ill")

    def statuses(self, first_line: int) -> dict:
        """How often each route answered with each status, since then."""
        counts = collections.defaultdict(collections.Counter)
        for line in self.server.lines[first_line:]:
            record = json.loads(line)
            counts[record["path"]][record["status"]] += 1
        return counts

    def expect_answered(self, first_line: int) -> None:
        counts = self.statuses(first_line)
        for path, methods in self.document["paths"].items():
            if "post" not in methods or path == "/v1/embeddings":
                continue
            answered = counts[path][200] / max(1, counts[path].total())
            print(f"  {path}: {dict(counts[path])}")
            if answered < LEAST_ANSWERED:
                self.findings.append(f"{path}: {answered:.0%} are answered")

    def all_passes(self) -> list[str]:
        self.do("whole", self.document)
        self.do("parted", without(self.document, APART),
                "negative_data_rejection")
        first_line = len(self.server.lines)
        self.do("answered", fitting(self.document), mode="positive")
        self.expect_answered(first_line)
        status = self.server.end()
        if status != 0:
            self.findings.append(f"the server ends with {status}")
        return self.findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("winnow")
    parser.add_argument("--minutes", type=float)
    asked = parser.parse_args()
    seconds = asked.minutes * 60 / 3 if asked.minutes else None
    with tempfile.TemporaryDirectory() as folder:
        write_scripted_model(Path(folder), SCRIPTS, TEMPLATE)
        findings = Run(asked.winnow, Path(folder), seconds).all_passes()
    print("\n".join(findings or ["schemathesis found nothing"]))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
