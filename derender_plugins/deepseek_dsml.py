"""deepseek_v32, deepseek_v4, deepseek_v41: DSML, tags that begin with ``<｜DSML｜``; and deepseek_v4's reasoning.

    block     := "<｜DSML｜" BLOCK ">" blank (call blank)* ["</｜DSML｜" BLOCK ">"]
    call      := "<｜DSML｜invoke" name ">" blank (parameter blank)* "</｜DSML｜invoke>"
    parameter := "<｜DSML｜parameter" name ["string=" "true" | "false"] ">" VALUE "</｜DSML｜parameter>"

Written by DeepSeek V3.2, V4 and V4.1, which differ in the name of the block and in a blank behind the bar; one machine
reads them all. The bar is U+FF5C. docs/formats/deepseek_dsml.md lists every rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from derender_core import (
    AttributeTagMachine,
    MachinePlugin,
    ModelFamily,
    ParseContext,
    Prompt,
    ThinkMachine,
    Tool,
    ToolChoice,
    call_tag,
    call_tags,
    normalize_arguments,
    offered_tools,
    parameter_schema,
    schema_types,
    typed_value,
)

BLOCKS = ("function_calls", "tool_calls", "toolcalls", "tool", "calls")
BARS = ("｜DSML｜", "｜DSML｜ ")
NOISE = (
    "<｜end▁of▁sentence｜>",
    *(f"<｜{task}｜>" for task in ("action", "query", "authority", "domain", "title", "read_url")),
)
WRAPPERS = ("arguments", "input")


@dataclass
class Dsml(AttributeTagMachine):
    """DSML tags, a tag for each parameter: DeepSeek V3.2, V4, V4.1."""

    section_openers = tuple(f"<{bar}{block}>" for bar in BARS for block in BLOCKS)
    section_closers = tuple(f"</{bar}{block}>" for bar in BARS for block in BLOCKS)
    call_openers = tuple(f"<{bar}invoke" for bar in BARS)
    call_closers = tuple(f"</{bar}invoke>" for bar in BARS)
    parameter_openers = tuple(f"<{bar}parameter" for bar in BARS)
    parameter_closers = tuple(f"</{bar}parameter>" for bar in BARS)
    hint_attribute = "string"
    explicit = True
    noise = NOISE
    ends_message = ("<｜User｜>",)

    def json_value(self, value: str) -> str:
        """``string="true"`` is text, ``string="false"`` JSON; without the attribute the schema decides."""
        if self.hint == "true":
            return typed_value(value, schema_types(None))
        if self.hint == "false":
            return typed_value(value, schema_types({}))
        return super().json_value(value)

    def is_text(self) -> bool:
        """As ``json_value`` reads it."""
        return self.hint == "true" or (self.hint != "false" and super().is_text())

    def may_send(self) -> bool:
        """What may turn out to be a wrapper waits for what follows it."""
        return self.key not in WRAPPERS or parameter_schema(self.schema, self.key) is not None

    def whole_arguments(self, members: str) -> str:
        """One object under a name that the tool does not know wraps the arguments."""
        name, _, value = members.partition(": ")
        if name.strip('"') in WRAPPERS and not self.may_send() and value.startswith("{"):
            inner = normalize_arguments(value)
            if inner is not None:
                return inner
        return super().whole_arguments(members)


@dataclass
class DeepSeekV4Reasoning(ThinkMachine):
    """Reasoning in <think> tags, verbatim, reopened where the model reopens it: DeepSeek V4, V4.1."""

    strip_newlines = False
    reopens = True
    when_prompt_is_unknown = True
    switches = ("thinking", "enable_thinking")
    noise = NOISE
    ends_message = ("<｜User｜>",)

    @classmethod
    def opens_reasoning(cls, prompt: Prompt | None, context: ParseContext) -> bool | None:
        """The effort "none" turns reasoning off, as the switches do."""
        if prompt is None and context.template_kwargs.get("reasoning_effort") == "none":
            return False
        return super().opens_reasoning(prompt, context)


def structural_tag(
    tools: Sequence[Tool], tool_choice: ToolChoice, *, bar: str, block: str, style: str
) -> Mapping[str, Any] | None:
    """A block of calls as the template writes it."""
    opener, end = f"<{bar}{block}>", f"</{bar}{block}>"
    tags = [
        call_tag(f'<{bar}invoke name="{tool.name}">\n', tool, f"</{bar}invoke>\n", style=style)
        for tool in offered_tools(tools, tool_choice)
    ]
    calls = call_tags(tags, "required" if tool_choice == "auto" else tool_choice, separator="")
    if calls is None:
        return None
    section = {"type": "tag", "begin": opener + "\n", "content": calls, "end": end}
    if tool_choice != "auto":
        return section
    return call_tags([section], "auto", separator="", triggers=(opener,), excludes=("<think>", "</think>"))


def _families(name: str, block: str, *types: str) -> list[ModelFamily]:
    """These models come without a chat template; others have written some for them, with the bar in a variable."""
    absent = tuple(other for other in ("function_calls>", "tool_calls>", " calls>") if other != block)
    return [
        ModelFamily((name,), template=("｜DSML｜", block), absent=absent),
        ModelFamily((name,), types=types, untemplated=True),
    ]


def _plugin(bar: str, block: str, style: str, families: Sequence[ModelFamily]) -> MachinePlugin:
    return MachinePlugin(
        Dsml,
        special_tokens=("｜DSML｜",),
        tool_call_openers=(*Dsml.section_openers, *Dsml.call_openers),
        structural_tag=partial(structural_tag, bar=bar, block=block, style=style),
        families=families,
    )


V32 = _families("DeepSeek V3.2", "function_calls>", "deepseek_v32")
V4 = _families("DeepSeek V4", "tool_calls>", "deepseek_v4")
V41 = _families("DeepSeek V4.1", " calls>", "deepseek_v4_1", "deepseek_v41")

v32 = _plugin("｜DSML｜", "function_calls", "deepseek_xml", V32)
v4 = _plugin("｜DSML｜", "tool_calls", "deepseek_xml", V4)
v41 = _plugin("｜DSML｜ ", "calls", "deepseek_v4_1_xml", V41)
v4_reasoning = MachinePlugin(DeepSeekV4Reasoning, special_tokens=("<think>", "</think>"), families=[*V4, *V41])
