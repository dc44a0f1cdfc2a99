"""Tools and the choice among them."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw

from gateway.errors import InvalidRequest
from gateway.relay.anthropic_openai.prompt import Prompt, Tool, ToolChoice

#: Tools that the client runs but whose schema only Anthropic's models know. Without them the
#: client's task cannot be done, so they are refused; tools that Anthropic's servers would run
#: (web_search_20250305, …) are an offer that nobody takes up here, and are left out.
RUN_BY_CLIENT: Final = ("bash_", "text_editor_", "computer_", "memory_")


def tool_fields(prompt: Prompt) -> dict[str, Any]:
    """The fields about tools.  A choice without tools says nothing, and vLLM refuses it."""
    tools = [
        function(tool, index)
        for index, tool in enumerate(prompt.tools or [])
        if tool.input_schema is not None or not known_by_type(tool, index)
    ]
    choice = prompt.tool_choice
    if choice is not None:
        check_choice(choice, {tool["function"]["name"] for tool in tools})
    if not tools:
        return {}
    fields: dict[str, Any] = {"tools": tools}
    if choice is not None:
        fields |= choice_fields(choice)
    return fields


def known_by_type(tool: Tool, index: int) -> bool:
    """Whether the tool is one of Anthropic's own.  Raises InvalidRequest if it had to be ours."""
    if tool.type in (None, "custom", "function"):
        raise InvalidRequest(f"tools.{index}.input_schema: Field required")
    if str(tool.type).startswith(RUN_BY_CLIENT):
        raise InvalidRequest(
            f"tools.{index}: {tool.type!r} is known to Anthropic's models only; "
            "describe it as a tool of your own, with input_schema"
        )
    return True


def function(tool: Tool, index: int) -> dict[str, Any]:
    if not tool.name:
        raise InvalidRequest(f"tools.{index}.name: Field required")
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = object_schema(tool.input_schema or {})
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def object_schema(schema: dict[str, Raw]) -> dict[str, Raw]:
    """The schema with what some servers insist on: that it is an object, and its properties."""
    missing = {"type": Raw(b'"object"'), "properties": Raw(b"{}")}
    return schema | {name: value for name, value in missing.items() if name not in schema}


def check_choice(choice: ToolChoice, names: set[str]) -> None:
    """Raises InvalidRequest for a choice that no answer could satisfy."""
    if choice.type not in ("auto", "any", "tool", "none"):
        raise InvalidRequest("tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'")
    if choice.type == "any" and not names:
        raise InvalidRequest("tool_choice: 'any' needs a tool that can be called here")
    if choice.type == "tool" and choice.name is None:
        raise InvalidRequest("tool_choice.name: Field required")
    if choice.type == "tool" and choice.name not in names:
        raise InvalidRequest(f"tool_choice.name: there is no tool {choice.name!r} to call here")


def choice_fields(choice: ToolChoice) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    match choice.type:
        case "any":
            fields["tool_choice"] = "required"
        case "tool":
            fields["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
        case _:
            fields["tool_choice"] = choice.type
    if choice.disable_parallel_tool_use:
        fields["parallel_tool_calls"] = False
    return fields
