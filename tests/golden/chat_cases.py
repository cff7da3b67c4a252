"""Conversations that make_chat.py renders: template -> name -> variables."""

from typing import Any

Variables = dict[str, Any]


def _said(role: str, content: Any, **more: Any) -> Variables:
    return {"role": role, "content": content, **more}


_HELLO = [_said("user", "Hello!")]
_TALK = [
    _said("system", "  You are terse.\n"),
    _said("user", "\n Who wrote 'Faust'?  "),
    _said("assistant", " Goethe. \n"),
    _said("user", 'And "Žižka"? 日本語 👩‍💻 <b>&amp;</b>'),
]
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather's <state> in a city & more: é 日本",
            "parameters": {
                "type": "object",
                "properties": {
                    "zone": {"type": "string", "enum": ["a", "b"]},
                    "city": {"type": "string", "default": None},
                    "days": {"type": "integer", "minimum": 1},
                },
                "required": ["city"],
                "strict": True,
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "now", "description": "", "parameters": {}},
    },
]
_CALL = {
    "type": "function",
    "function": {
        "name": "weather",
        "arguments": {
            "city": 'Köln "Süd" </s>',
            "days": 3,
            "at": [1.5, 2.0, -0.25, 1e-07, 12345678901],
            "deep": {"z": None, "a": False, "tab": "\t\\"},
        },
    },
}
_CALL_TEXT = {"name": "now", "arguments": '{"tz": 1}'}
_CALLED = [
    _said("user", "Weather?"),
    {"role": "assistant", "tool_calls": [_CALL]},
    _said("tool", {"sky": "blue", "t": 21.5}),
    _said("assistant", "Blue."),
    _said("user", "Thanks"),
]
_THOUGHT = [
    _said("system", "S"),
    _said("user", "q1"),
    _said("assistant", "<think>\nold thought\n</think>\n\na1"),
    _said("user", "q2"),
    _said("assistant", "<think>\nnew\n\nthought\n</think>\n\na2"),
]
_TOOL_CHAIN = [
    _said("user", "q"),
    _said("assistant", "", reasoning_content="\nr\n", tool_calls=[_CALL]),
    _said("tool", "one"),
    _said("tool", "two"),
    _said("assistant", "so", tool_calls=[_CALL, _CALL_TEXT]),
    _said("tool", "three"),
]
_LLAMA: Variables = {
    "bos_token": "<|begin_of_text|>",
    "eos_token": "<|eot_id|>",
}
_QWEN: Variables = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
_MISTRAL: Variables = {"bos_token": "<s>", "eos_token": "</s>"}


def _case(tokens: Variables, messages: Any, **more: Any) -> Variables:
    """The variables of one rendering, as apply_chat_template passes them."""
    return {
        "messages": messages,
        "tools": None,
        "documents": None,
        "add_generation_prompt": True,
        **tokens,
        **more,
    }


_HEADERS = {
    "hello": _case(_LLAMA, _HELLO, date_string="26 Jul 2024"),
    "now": _case(_LLAMA, _HELLO),
    "talk": _case(_LLAMA, _TALK, date_string=""),
    "no_prompt": _case(_LLAMA, _TALK, add_generation_prompt=False),
    "tools": _case(_LLAMA, _HELLO, tools=_TOOLS),
    "tools_first": _case(
        _LLAMA, _TALK, tools=_TOOLS, tools_in_user_message=False
    ),
    "custom_tools": _case(_LLAMA, _HELLO, custom_tools=_TOOLS[1:]),
    "called": _case(_LLAMA, _CALLED),
    "two_calls": _case(
        _LLAMA,
        [{"role": "assistant", "tool_calls": [_CALL, _CALL]}],
    ),
    "tools_no_user": _case(_LLAMA, [_said("assistant", "S")], tools=_TOOLS),
    "system_alone": _case(_LLAMA, [_said("system", "S")]),
}
_CHATML = {
    "hello": _case(_QWEN, _HELLO),
    "talk": _case(_QWEN, _TALK),
    "no_prompt": _case(_QWEN, _TALK, add_generation_prompt=False),
    "tools": _case(_QWEN, _TALK, tools=_TOOLS),
    "tools_no_system": _case(_QWEN, _HELLO, tools=_TOOLS),
    "no_tools": _case(_QWEN, _HELLO, tools=[]),
    "thought": _case(_QWEN, _THOUGHT, add_generation_prompt=False),
    "thought_goes_on": _case(
        _QWEN, [*_THOUGHT, _said("user", "q3")], enable_thinking=True
    ),
    "not_thinking": _case(_QWEN, _HELLO, enable_thinking=False),
    "tool_chain": _case(_QWEN, _TOOL_CHAIN),
    "late_system": _case(_QWEN, [*_HELLO, _said("system", "new rule")]),
    "null_content": _case(
        _QWEN, [*_HELLO, _said("assistant", None, tool_calls=[_CALL])]
    ),
}
_PARTS = [
    {"type": "text", "text": "one"},
    {"type": "note", "text": "left out"},
    {"type": "text", "text": " two "},
]
_INST = {
    "hello": _case(_MISTRAL, _HELLO),
    "talk": _case(_MISTRAL, _TALK),
    "answered": _case(_MISTRAL, _TALK[:3], add_generation_prompt=False),
    "documents": _case(
        _MISTRAL,
        _TALK,
        documents=[
            {"title": 'A "b"', "text": "x\ny"},
            {"title": "é", "text": "<&>'"},
        ],
    ),
    "parts": _case(_MISTRAL, [_said("user", _PARTS)]),
    "image": _case(_MISTRAL, [_said("user", [{"type": "image"}])]),
    "two_users": _case(_MISTRAL, _HELLO * 2),
    "other_role": _case(_MISTRAL, [*_HELLO, _said("critic", "no")]),
    "nothing_to_answer": _case(_MISTRAL, _TALK[:3]),
    "extra": _case(
        _MISTRAL, _HELLO, extra={"z": 1, "a": "two"}, footer=" f\tg "
    ),
}

CASES: dict[str, dict[str, Variables]] = {
    "headers": _HEADERS,
    "chatml": _CHATML,
    "inst": _INST,
}
