"""llama3_json: bare JSON objects, or JSON behind ``<|python_tag|>``.

    call := {"name": string, "parameters" | "arguments": object}
          | "[" call ("," call)* "]"
          | "<function=" name ">" object ["</function>"]
          | fence, when it is the whole answer

Written by Llama 3.1, 3.2 and 3.3, and by Llama 4 with a JSON prompt. docs/formats/llama3_json.md lists every rule.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    NEED_DATA,
    MachinePlugin,
    ModelFamily,
    NeedData,
    PositionalCallMachine,
    State,
    Tool,
    ToolChoice,
    call_tag,
    call_tags,
    offered_tools,
    parse_calls,
)

TAG = "<|python_tag|>"
ENDS = ("<|eom_id|>", "<|eot_id|>")
HEADER, HEADER_END = "<|start_header_id|>", "<|end_header_id|>"
FUNCTION, FUNCTION_END = "<function=", "</function>"
FENCE, FENCE_END = "```json", "```"


@dataclass
class Llama3Json(PositionalCallMachine):
    """Bare JSON calls: Llama 3.1, 3.2 and 3.3.

    Args:
        complete: where the object in a fence ends, once it does.
    """

    complete: int = 0

    tags = (TAG,)
    noise = ENDS
    closers = (FUNCTION_END,)
    header = HEADER
    run_on = f"{HEADER}assistant{HEADER_END}"

    def begin(self, char: str) -> None:
        """The four forms of a call begin each with a character of its own."""
        if char == "[":
            self.phase = "list_start"
        elif char == "<":
            self.phase = "function"
        elif char == "`" and not (self.tagged or self.after or self.calls or self.spoke):
            self.phase = "fence"
        else:
            super().begin(char)

    # -- lists -------------------------------------------------------------------------------------------------------

    def read_list_start(self) -> NeedData | None:
        """Only a list that begins with an object can be one of calls."""
        self.ahead = max(self.ahead, self.body + 1)
        char = self.skip_blank()
        if char == "":
            return self.wait()
        if char != "{":
            self.release()
            return None
        self.ahead = self.body
        self.begin_object("list")
        return None

    def read_list(self) -> NeedData | None:
        """A list is one unit: all of it are calls, or it is text."""
        progress = self.walk_value()
        if progress == "more":
            return self.wait()
        if progress == "bad":
            return self.broken("text")
        calls = parse_calls(self.body_text, required=True)
        if calls and all(self.acceptable(call.name) for call in calls):
            self.accept(calls)
        else:
            self.release()
        return None

    def cut(self, *, normal: bool) -> None:
        """As for objects; a list counts by its first object, and the tag of an offered function is certain."""
        if self.phase in ("function_start", "function_arguments"):
            self.drop()
            return
        if self.phase == "list" and not normal and not self.tagged:
            end, self.ahead = self.ahead, self.body + 1
            self.skip_blank()
            self.begin_value()
            self.walk_object()
            self.ahead = end
        super().cut(normal=normal)

    # -- <function=NAME> ---------------------------------------------------------------------------------------------

    def read_function(self) -> NeedData | None:
        """The tag of an offered function; any other tag is text."""
        undecided = False
        for name in self.context.tool_names:
            stands = self.stands(f"{FUNCTION}{name}>")
            if stands:
                self.name = name
                self.ahead += len(FUNCTION) + len(name) + 1
                self.phase = "function_start"
                return None
            undecided = undecided or stands is None
        if undecided:
            return NEED_DATA
        self.release()
        return None

    def read_function_start(self) -> NeedData | None:
        """From the tag to the arguments."""
        char = self.skip_blank()
        if char == "":
            return self.wait()
        if char == "{":
            self.begin_value()
            self.phase = "function_arguments"
        else:
            self.release()
        return None

    def read_function_arguments(self) -> NeedData | None:
        """The arguments. The closing tag behind them is optional and vanishes in the gap."""
        progress = self.walk_arguments()
        if progress == "more":
            return self.wait()
        if progress == "bad":
            return self.broken("text")
        if self.end_arguments():
            self.accept([])
        else:
            self.release()
        return None

    # -- a fence -----------------------------------------------------------------------------------------------------

    def read_fence(self) -> NeedData | None:
        """Three backticks and ``json``."""
        stands = self.stands(FENCE)
        if stands is None:
            return NEED_DATA
        if not stands:
            self.release()
            return None
        self.ahead += len(FENCE)
        self.phase = "fence_start"
        return None

    def read_fence_start(self) -> NeedData | None:
        """From the fence to the object."""
        char = self.skip_blank()
        if char == "{":
            self.begin_object("fenced")
        elif char == "":
            return self.wait()
        else:
            self.release()
        return None

    def read_fenced(self) -> NeedData | None:
        """The object in the fence. What follows the fence decides, so it is never announced."""
        progress = self.walk_object()
        if progress == "more":
            return self.wait()
        if progress == "bad":
            return self.broken("rest")
        if self.body_call() is None:
            self.release()
        else:
            self.complete, self.phase = self.ahead, "fence_end"
        return None

    def read_fence_end(self) -> NeedData | None:
        """From the object to the closing backticks."""
        if self.skip_blank() == "" and not self.final:
            return NEED_DATA
        if self.final and FENCE_END.startswith(self.look(len(FENCE_END))):
            self.ahead += len(self.look(len(FENCE_END)))
            self.phase = "fence_tail"
            return None
        stands = self.stands(FENCE_END)
        if stands is None:
            return NEED_DATA
        if stands:
            self.ahead += len(FENCE_END)
            self.phase = "fence_tail"
        else:
            self.release()
        return None

    def read_fence_tail(self) -> NeedData | None:
        """Only the end of the answer may follow."""
        while True:
            char = self.skip_blank()
            marker = self.marker_here() if char == "<" else ""
            if marker is None or (char == "" and not self.final):
                return NEED_DATA
            if marker not in self.noise:
                break
            self.ahead += len(marker)
        if char == "" or marker == HEADER:
            end, self.ahead = self.ahead, self.complete
            call = self.body_call()
            self.ahead = end
            if call is not None:
                self.accept([call])
                return None
        self.release()
        return None

    def forget_region(self) -> None:
        """As ``JsonCallMachine.forget_region``, and where the fenced object ends."""
        super().forget_region()
        self.complete = 0

    @classmethod
    def check(cls, state: State) -> str | None:
        """As ``JsonCallMachine.check``, and that ``complete`` lies within what was read."""
        wrong = super().check(state)
        if not wrong and state.get("complete", 0) > state.get("ahead", 0):
            return "field 'complete' points outside the buffer"
        return wrong


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """The trained form. Nothing announces a call in free text, so ``"auto"`` cannot be constrained."""
    tags = [
        call_tag(f'{{"name": {json.dumps(tool.name)}, "parameters": ', tool, "}")
        for tool in offered_tools(tools, tool_choice)
    ]
    return call_tags(tags, tool_choice, separator="; ")


plugin = MachinePlugin(
    Llama3Json,
    special_tokens=(TAG, *ENDS, HEADER, HEADER_END),
    tool_call_openers=(TAG,),
    structural_tag=structural_tag,
    families=[
        ModelFamily(
            ("Llama 3.1", "Llama 3.2", "Llama 3.3", "Llama 4"),
            template=("dictionary of argument name and its value",),
            absent=("[func_name1(",),
        ),
    ],
)
