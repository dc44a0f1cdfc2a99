"""One answer in the words of many servers: a grammar of their habits, for generated streams.

An ``Answer`` is what a model said.  A ``Habit`` is how some server would say it, drawn part by
part, so that habits meet that no single server combines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from hypothesis import strategies as st

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).filter(str.strip)
NAMES = st.sampled_from(["get_a", "get_b", "get_ab", "search"])
ARGUMENTS = st.dictionaries(
    st.sampled_from(["x", "y", "}"]),
    st.one_of(TEXT, st.integers(-9, 9), st.none(), st.lists(TEXT, max_size=2)),
    max_size=2,
)


@dataclass(frozen=True)
class Answer:
    thinking: str | None
    text: str | None
    calls: list[tuple[str, dict[str, Any]]]
    stop: str
    """Anthropic's word."""

    @property
    def content(self) -> list[dict[str, Any]]:
        """As Anthropic has it, without ids."""
        blocks: list[dict[str, Any]] = []
        if self.thinking:
            blocks.append({"type": "thinking", "thinking": self.thinking, "signature": ""})
        if self.text:
            blocks.append({"type": "text", "text": self.text})
        return blocks + [
            {"type": "tool_use", "name": name, "input": input} for name, input in self.calls
        ]


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    calls = draw(st.lists(st.tuples(NAMES, ARGUMENTS), max_size=3))
    text, thinking = draw(st.none() | TEXT), draw(st.none() | TEXT)
    plain = "tool_use" if calls else "end_turn"
    return Answer(thinking, text, calls, draw(st.sampled_from([plain, plain, "max_tokens"])))


THINKING = {
    "DeepSeek's": lambda text: {"reasoning_content": text},
    "vLLM's": lambda text: {"reasoning": text},
    "both": lambda text: {"reasoning": text, "reasoning_content": text},
    "Ollama's own": lambda text: {"thinking": text},
    "OpenRouter's": lambda text: {"reasoning_details": [{"type": "reasoning.text", "text": text}]},
    "an object": lambda text: {"reasoning": {"content": text}},
    "Mistral's": lambda text: {
        "content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]
    },
}
CONTENT = {
    "a string": lambda text: text,
    "a list of parts": lambda text: [{"type": "text", "text": text}],
    "one part": lambda text: {"type": "output_text", "text": text},
    "a list of strings": lambda text: [text],
}
REASONS = {
    "end_turn": ["stop", "eos", "eos_token", "STOP", "end_turn", "unknown"],
    "tool_use": ["tool_calls", "stop", "function_call", "TOOL_CALLS", "tool_use"],
    "max_tokens": ["length", "MAX_TOKENS", "max-tokens", "model_length", "token limit"],
}
USAGE = {
    "OpenAI's": {"prompt_tokens_details": {"cached_tokens": 4}},
    "DeepSeek's": {"prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 6},
    "Moonshot's": {"cached_tokens": 4},
    "OpenAI's newer": {
        "input_tokens": 10,
        "output_tokens": 3,
        "input_tokens_details": {"cached_tokens": 4},
        "prompt_tokens": None,
        "completion_tokens": None,
    },
    "LiteLLM's": {"cache_read_input_tokens": 4, "cache_creation_input_tokens": 0},
}
COUNTED = {"input_tokens": 6, "cache_read_input_tokens": 4, "output_tokens": 3}

IDENTITIES = ["all", "index and id once", "index only", "id only", "nothing but order"]
FORMS = ["text", "object", "encoded twice", "flat", "placeholder first"]
FRAMINGS = [
    "data: ",
    "data:",
    "event: message\ndata: ",
    "id: 7\nretry: 5\ndata: ",
    ": hi\n\ndata: ",
]
ASIDES = [
    "",
    ": keep-alive\n\n",
    "event: ping\ndata: {}\n\n",
    'data: {"choices":[]}\n\n',
    "data: null\n\n",
    "event: progress\ndata: 50 %\n\n",
    'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}\n\n',
    'data: {"choices":[{"index":0,"delta":{},"logprobs":{"p":NaN}}],"created":1e999}\n\n',
    'data: {"choices":[{"index":1,"delta":{"content":"another choice"}}]}\n\n',
]


@dataclass(frozen=True)
class Habit:
    thinking: str
    content: str
    identity: str
    form: str
    interleaved: bool
    together: bool
    """All that is said of calls in one chunk."""
    pieces: int
    framing: str
    aside: str
    newline: str
    is_glued: bool
    """One newline instead of two between the chunks."""
    in_messages: bool
    """``message`` where others have ``delta``."""
    ascii: bool
    reason: int
    not_yet: str | None
    """What stands for the reason before there is one."""
    usage: str
    usage_place: str
    done: bool

    @property
    def is_whole(self) -> bool:
        """Whether calls come whole: pieces of them could not be told apart, or are none."""
        return self.form in ("object", "flat") or self.identity == "nothing but order"


HABITS = st.builds(
    Habit,
    thinking=st.sampled_from(sorted(THINKING)),
    content=st.sampled_from(sorted(CONTENT)),
    identity=st.sampled_from(IDENTITIES),
    form=st.sampled_from(FORMS),
    interleaved=st.booleans(),
    together=st.booleans(),
    pieces=st.integers(1, 5),
    framing=st.sampled_from(FRAMINGS),
    aside=st.sampled_from(ASIDES),
    newline=st.sampled_from(["\n", "\n", "\r\n", "\r"]),
    is_glued=st.booleans(),
    in_messages=st.booleans(),
    ascii=st.booleans(),
    reason=st.integers(0, 9),
    not_yet=st.sampled_from([None, "", "null"]),
    usage=st.sampled_from(sorted(USAGE)),
    usage_place=st.sampled_from(["own chunk", "last chunk", "last choice", "every chunk"]),
    done=st.booleans(),
)


def cut(text: str, pieces: int, *, halves: bool) -> list[str]:
    """``text`` in so many pieces; ``halves``: also inside characters, as escapes can be cut."""
    if not halves:
        size = -(-len(text) // pieces) or 1
        return [text[at : at + size] for at in range(0, len(text), size)]
    units = text.encode("utf-16-le")
    size = 2 * (-(-len(units) // (2 * pieces)) or 1)
    return [
        units[at : at + size].decode("utf-16-le", "surrogatepass")
        for at in range(0, len(units), size)
    ]


def whole_call(habit: Habit, place: int, name: str, input: dict[str, Any]) -> dict[str, Any]:
    arguments: Any = json.dumps(input, ensure_ascii=False)
    if habit.form == "object":
        arguments = input
    elif habit.form == "encoded twice":
        arguments = json.dumps(arguments)
    function = {"name": name, "arguments": arguments}
    fields = function if habit.form == "flat" else {"type": "function", "function": function}
    return identity(habit, place) | fields


def identity(habit: Habit, place: int) -> dict[str, Any]:
    match habit.identity:
        case "all" | "index and id once":
            return {"index": place, "id": f"call_{place}"}
        case "index only":
            return {"index": place}
        case "id only":
            return {"id": f"call_{place}"}
        case _:
            return {}


def pieces_of_call(
    habit: Habit, place: int, name: str, input: dict[str, Any]
) -> list[dict[str, Any]]:
    call = whole_call(habit, place, name, input)
    if habit.is_whole:
        return [call]
    arguments = call["function"]["arguments"]
    begun = "{}" if habit.form == "placeholder first" else ""
    pieces = [call | {"function": {"name": name, "arguments": begun}}]
    again = identity(habit, place)
    if habit.identity == "index and id once":
        del again["id"]
    rest = cut(arguments, habit.pieces, halves=habit.ascii)
    return pieces + [again | {"function": {"arguments": piece}} for piece in rest]


def deltas(answer: Answer, habit: Habit) -> Iterator[dict[str, Any]]:
    for piece in cut(answer.thinking or "", habit.pieces, halves=habit.ascii):
        yield THINKING[habit.thinking](piece)
    for piece in cut(answer.text or "", habit.pieces, halves=habit.ascii):
        yield {"content": CONTENT[habit.content](piece)}
    calls = [pieces_of_call(habit, at, *call) for at, call in enumerate(answer.calls)]
    if habit.interleaved:
        ordered = [piece for row in zip_longest(*calls) for piece in row if piece]
    else:
        ordered = [piece for call in calls for piece in call]
    if habit.together and ordered:
        yield {"tool_calls": ordered}
    else:
        yield from ({"tool_calls": [piece]} for piece in ordered)


def usage_of(habit: Habit) -> dict[str, Any]:
    return {"prompt_tokens": 10, "completion_tokens": 3} | USAGE[habit.usage]


def finish_of(answer: Answer, habit: Habit) -> str:
    reasons = REASONS[answer.stop]
    return reasons[habit.reason % len(reasons)]


def stream_of(answer: Answer, habit: Habit) -> bytes:
    """The answer as a stream of chat completions chunks."""
    name = "message" if habit.in_messages else "delta"
    frames = [chunk(habit, {name: delta}) for delta in deltas(answer, habit)]
    usage = usage_of(habit)
    last: dict[str, Any] = {name: {}, "finish_reason": finish_of(answer, habit)}
    if habit.usage_place == "last choice":
        last["usage"] = usage
    frames.append(chunk(habit, last, usage=usage if habit.usage_place == "last chunk" else None))
    if habit.usage_place == "own chunk":
        frames.append(framed(habit, {"choices": [], "usage": usage}))
    if habit.done:
        frames.append("data: [DONE]\n\n")
    stream = habit.aside.join(["", *frames])
    if habit.is_glued and habit.framing in FRAMINGS[:2] and not habit.aside:
        stream = stream.replace("\n\n", "\n")
    return stream.replace("\n", habit.newline).encode()


def chunk(habit: Habit, choice: dict[str, Any], usage: object = None) -> str:
    if habit.usage_place == "every chunk":
        usage = usage_of(habit)
    choice = {"index": 0, "finish_reason": habit.not_yet} | choice
    return framed(habit, {"id": "c", "choices": [choice], "usage": usage})


def framed(habit: Habit, document: object) -> str:
    return f"{habit.framing}{json.dumps(document, ensure_ascii=habit.ascii)}\n\n"


def body_of(answer: Answer, habit: Habit) -> bytes:
    """The answer as a whole chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if answer.text:
        message["content"] = CONTENT[habit.content](answer.text)
    if answer.thinking and habit.thinking == "Mistral's":
        thought = THINKING[habit.thinking](answer.thinking)["content"]
        text = [{"type": "text", "text": answer.text}] if answer.text else []
        message["content"] = thought + text
    elif answer.thinking:
        message |= THINKING[habit.thinking](answer.thinking)
    if answer.calls:
        message["tool_calls"] = [
            whole_call(habit, at, *call) for at, call in enumerate(answer.calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": finish_of(answer, habit)}
    return json.dumps({"id": "c", "choices": [choice], "usage": usage_of(habit)}).encode()
