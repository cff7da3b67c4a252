"""The conversations that make_chat_forms.py renders by each template."""

from typing import Any

Variables = dict[str, Any]


def _said(role: str, content: Any, **more: Any) -> Variables:
    return {"role": role, "content": content, **more}


def _call(name: str, call_id: str, **arguments: Any) -> Variables:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _tool(name: str, description: str, **parameters: Any) -> Variables:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", **parameters},
        },
    }


def _part(text: str) -> Variables:
    return {"type": "text", "text": text}


TOOLS = [
    _tool(
        "weather",
        "The <state> of a city's sky & more: é 日本",
        properties={
            "zone": {"type": "string", "enum": ["a", "b"]},
            "city": {"type": "string", "description": "Where?"},
            "days": {"type": "integer", "default": 3},
            "parts": {"type": "array", "items": {"type": "number"}},
            "more": {"type": ["string", "null"], "nullable": True},
        },
        required=["city"],
    ),
    _tool("now", "The time", properties={}),
]
_HELLO = [_said("user", "Hello there!")]
_SYSTEM = _said("system", "  You are terse.\n")
_TALK = [
    _said("user", "\n Who wrote 'Faust'?  "),
    _said("assistant", " Goethe. \n"),
    _said("user", 'And "Žižka"? 日本語 👩‍💻 <b>&amp;</b> {{ x }} \\n'),
]
_CALLED = [
    _said("user", "Weather in Köln?"),
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            _call(
                "weather",
                "call00001",
                city='Köln "Süd" </s>',
                days=3,
                at=[1.5, 2.0, -0.25, 1e-07, 12345678901],
                deep={"z": None, "a": False, "tab": "\t\\"},
            )
        ],
    },
    _said("tool", '{"sky": "blue"}', tool_call_id="call00001", name="weather"),
]
_TWO_CALLS = [
    *_CALLED[:1],
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            _call("weather", "call00001", city="Köln"),
            _call("now", "call00002"),
        ],
    },
    _said("tool", "blue", tool_call_id="call00001", name="weather"),
    _said("tool", "noon\n", tool_call_id="call00002", name="now"),
    _said("assistant", "Blue at noon."),
    _said("user", "Thanks"),
]
_THOUGHT = [
    _said("user", "q1"),
    _said("assistant", "<think>\nold thought\n</think>\n\na1"),
    _said("user", "q2"),
]

# name -> messages and all other arguments of apply_chat_template
CONVERSATIONS: dict[str, Variables] = {
    "hello": {"messages": _HELLO},
    "no_prompt": {"messages": _HELLO, "add_generation_prompt": False},
    "system": {"messages": [_SYSTEM, *_HELLO]},
    "talk": {"messages": _TALK},
    "system_talk": {"messages": [_SYSTEM, *_TALK]},
    "answered": {
        "messages": [_SYSTEM, *_TALK[:2]],
        "add_generation_prompt": False,
    },
    "tools": {"messages": _HELLO, "tools": TOOLS},
    "system_tools": {"messages": [_SYSTEM, *_TALK], "tools": TOOLS},
    "called": {"messages": _CALLED, "tools": TOOLS},
    "two_calls": {"messages": _TWO_CALLS, "tools": TOOLS},
    "null_beside_calls": {
        "messages": [
            _CALLED[0],
            {**_CALLED[1], "content": None},
            *_CALLED[2:],
        ],
    },
    "thought_tags": {"messages": _THOUGHT},
    "thought_field": {
        "messages": [
            *_HELLO,
            _said("assistant", "Hi.", reasoning_content="\ngreet\n"),
        ],
        "add_generation_prompt": False,
    },
    "thinking_off": {"messages": _HELLO, "enable_thinking": False},
    "thinking_on": {
        "messages": _TALK,
        "enable_thinking": True,
        "thinking": True,
        "thinking_budget": 500,
        "reasoning_effort": "high",
    },
    "parts": {
        "messages": [
            _said("user", [_part(" one "), _part("two")]),
            _said("assistant", "three"),
            _said("user", [_part("four")]),
        ],
    },
    "empty": {
        "messages": [
            _said("user", ""),
            _said("assistant", "Hm?"),
            _said("user", "\r\n x \t"),
        ],
    },
    "late_system": {"messages": [*_HELLO, _said("system", "Now in French.")]},
    "two_users": {"messages": [*_HELLO, _said("user", "Anyone?")]},
    "documents": {
        "messages": _TALK,
        "documents": [
            {"title": 'A "b"', "text": "x\ny"},
            {"title": "é", "text": "<&>'"},
        ],
    },
    "continued": {
        "messages": [*_HELLO, _said("assistant", " The capital is ")],
        "add_generation_prompt": False,
        "continue_final_message": True,
    },
}
