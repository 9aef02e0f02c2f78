"""openai (tools) and openai_gptoss (reasoning): harmony, the channels of gpt-oss. One machine serves both slots.

    message := ["<|start|>" ROLE] [" to=" RECIPIENT] ["<|channel|>" CHANNEL [" to=" RECIPIENT]]
               ["<|constrain|>"] [TYPE] "<|message|>" BODY ("<|end|>" | "<|call|>" | "<|return|>" | end of output)

The prompt ends behind ``<|start|>assistant``, so an output begins within a header. A recipient ``functions.NAME`` makes
the body a call's arguments, the channel ``analysis`` makes it reasoning, and everything else is content. The markers
are control tokens: where token ids are known, text that looks like one is text.
docs/formats/openai.md lists every rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derender_core import (
    NEED_DATA,
    Call,
    CombinedMachine,
    JsonCallMachine,
    MachinePlugin,
    ModelFamily,
    NeedData,
    ParseContext,
    Prompt,
    Tool,
    ToolChoice,
    call_tag,
    call_tags,
    offered_tools,
)

START, CHANNEL, CONSTRAIN, MESSAGE = "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"
CALL, ENDS = "<|call|>", ("<|end|>", "<|call|>", "<|return|>")
MARKERS = (START, CHANNEL, CONSTRAIN, MESSAGE, *ENDS)
HEADS = (START, CHANNEL, MESSAGE)
BODY_ENDS = (*ENDS, START, CHANNEL)
ROLE, RECIPIENT, FUNCTIONS = "assistant", "to=", "functions."
OTHER_ROLES = ("user", "system", "developer", "tool")
PARTS = {START: "role", CHANNEL: "channel", CONSTRAIN: "type"}


@dataclass
class Harmony(CombinedMachine, JsonCallMachine):
    """Messages in channels, some of them calls: gpt-oss.

    The region is a message's header, and then the body of a call.

    Args:
        part: which part of the header is being read; it begins at ``body``.
        role: who writes the message, when the header says it is not the assistant.
        channel: the message's channel.
        recipient: whom it is for.
    """

    phase: str = "outset"
    part: str = "role"
    role: str = ""
    channel: str = ""
    recipient: str = ""

    trim = False
    control_markers = True
    text_markers = (ROLE, RECIPIENT, f" {RECIPIENT}")

    @classmethod
    def opens_reasoning(cls, prompt: Prompt | None, context: ParseContext) -> bool | None:  # noqa: ARG003
        """Only a prompt that ends within a message decides; otherwise the headers tell."""
        header, message, _ = prompt.current_turn.rpartition(MESSAGE) if prompt is not None else ("", "", "")
        return f"{CHANNEL}analysis" in header if message else None

    def read_outset(self) -> NeedData | None:
        """The output begins within a header that the prompt began, unless it begins with other text."""
        if self.reasons and self.context.reasoning_open is not None:
            self.phase = "reasoning" if self.context.reasoning_open else "raw" if self.passes else "answer"
            return None
        char = self.skip_blank()
        marker = self.which((*HEADS, ROLE, RECIPIENT)) if char else None
        if marker == ROLE:
            marker = self.which((*HEADS, f" {RECIPIENT}"), self.ahead + len(ROLE))
        if marker is None and not self.final:
            return NEED_DATA
        self.ahead, self.phase = 0, "header" if marker else "between"
        return None

    # -- headers -----------------------------------------------------------------------------------------------------

    def begin_header(self) -> None:
        """A header begins at the cursor."""
        self.begin_region()
        self.phase = "header"

    def forget_region(self) -> None:
        """As ``JsonCallMachine.forget_region``, and the header."""
        super().forget_region()
        self.part, self.role, self.channel, self.recipient = "role", "", "", ""

    def read_header(self) -> NeedData | None:
        """Part by part, up to the message's body."""
        self.ahead, marker = self.find(MARKERS, self.ahead)
        if marker is None:
            return self._end() if self.final else NEED_DATA
        self._read_part(self.peek(self.ahead - self.body, self.body).split())
        self.ahead += len(marker)
        self.body = self.ahead
        if marker in ENDS:
            self.skip(self.ahead)  # a message without a body
            self._leave()
        elif marker == MESSAGE:
            self._begin_body()
        else:
            self.part = PARTS[marker]
            if marker == START:
                self.role = self.recipient = ""
            self.channel = "" if marker in (START, CHANNEL) else self.channel
        return None

    def _read_part(self, words: list[str]) -> None:
        for word in words:
            if word.startswith(RECIPIENT):
                self.recipient = word.removeprefix(RECIPIENT)
            elif self.part == "channel" and not self.channel:
                self.channel = word
            elif self.part == "role" and (word in OTHER_ROLES or word.startswith(FUNCTIONS)):
                self.role = word

    @property
    def function(self) -> str:
        """The function that the message calls, ``""`` when it calls none."""
        if self.recipient.startswith(FUNCTIONS):
            return self.recipient.removeprefix(FUNCTIONS)
        return self.recipient if self.recipient in self.context.tool_names else ""

    def _begin_body(self) -> None:
        name = self.function
        if self.role:  # the model runs on into another turn
            self.phase = "done"
        elif not name and self.recipient and self.channel != "final" and not self.recipient.startswith(FUNCTIONS):
            self.phase = "dropped"  # for a tool of the engine
        elif not name and self.channel == "analysis":
            self.phase = "thought"
        elif self.passes:
            self.phase = "call" if name else "raw"
            self.emit_text(self.ahead)
            self.ahead = 0
        else:
            self.phase = "blank" if name and not self.reasons else "answer"
        self.skip(self.ahead)
        self.begin_region()
        self.name = name
        self.phase = "reasoning" if self.phase == "thought" else self.phase

    # -- bodies ------------------------------------------------------------------------------------------------------

    def read_between(self) -> NeedData | None:
        """Blank text between messages vanishes; other text there is content."""
        char = self.skip_blank()
        marker = self.which(MARKERS) if char else ""
        if marker is None or (char == "" and not self.final):
            return NEED_DATA
        if char == "":
            return self._end()
        if marker in HEADS:
            self.begin_header()
        elif marker:
            self.skip(self.ahead + len(marker))
            self.ahead = 0
        else:
            self.ahead, self.phase = 0, "raw" if self.passes else "answer"
        return None

    def read_answer(self) -> NeedData | None:
        """The answer, or what is said before a call."""
        return self._read_body(lambda count: self.content(self.take(count)))

    def read_reasoning(self) -> NeedData | None:
        """Reasoning."""
        return self._read_body(self.reason)

    def read_dropped(self) -> NeedData | None:
        """A message that is not for the client."""
        return self._read_body(self.skip)

    def read_raw(self) -> NeedData | None:
        """A message for the other half."""
        return self._read_body(self.emit_text)

    def read_call(self) -> NeedData | None:
        """A call for the other half: a marker in a string of its JSON is data."""
        progress = self.walk_value()
        self.emit_text(self.ahead)
        self.ahead = 0
        if progress == "more":
            return self._end() if self.final else NEED_DATA
        self.phase = "raw"
        return None

    def _read_body(self, consume: Callable[[int], None]) -> NeedData | None:
        """A body up to its end, which the header of another message is, too."""
        count, marker = self.find((*BODY_ENDS, MESSAGE, CONSTRAIN))
        if count:
            consume(count)
        if marker is None:
            return self._end() if self.final else NEED_DATA
        raw = self.phase == "raw"
        if marker in BODY_ENDS:
            self._leave()
        if marker in (START, CHANNEL):
            self.begin_header()
        elif raw:
            self.emit_text(len(marker))
        else:
            self.skip(len(marker))
        return None

    def _leave(self) -> None:
        """The message is over."""
        self.begin_region()
        self.end_reasoning()
        self.phase = "between"

    def read_done(self) -> NeedData:
        """The answer is over."""
        return self._end()

    def _end(self) -> NeedData:
        """Drop what is there; at the end of the output, release what was held."""
        self.skip(self.waiting)
        self.begin_region()
        if self.final:
            self.end_content()
        return NEED_DATA

    # -- calls -------------------------------------------------------------------------------------------------------

    def read_blank(self) -> NeedData | None:
        """From the header to the arguments. A body without any is an empty object."""
        char = self.skip_blank()
        marker = self.which(BODY_ENDS) if char else None
        if char == "" and self.final and self.ended_normally:
            marker = BODY_ENDS[0]
        if marker is None:
            return self._wait()
        if marker:
            self.call(Call(self.name, "{}"))
            self._close_call()
        else:
            self.begin_value()
            self.phase = "json"
        return None

    def read_json(self) -> NeedData | None:
        """The arguments."""
        progress = self.walk_arguments()
        if progress == "more":
            return self._wait()
        self.phase = "tail" if progress == "done" else "junk"
        return None

    def read_tail(self) -> NeedData | None:
        """From the arguments to the end of the message. They are complete, so the output may end, too."""
        char = self.skip_blank()
        marker = self.which(BODY_ENDS) if char or not self.final else BODY_ENDS[0]
        if marker is None or (char == "" and not self.final):
            return NEED_DATA
        if not marker:
            self.phase = "junk"
        elif self.end_arguments():
            self._close_call()
        else:
            self._take_text()
        return None

    def read_junk(self) -> NeedData | None:
        """A body that is no call: content."""
        self.ahead, marker = self.find(BODY_ENDS, self.ahead)
        if marker is None:
            return self._wait()
        self._take_text()
        return None

    def _take_text(self) -> None:
        """The body is no call: content, unless it was announced as one."""
        if not self.announced:
            self.content(self.take(self.ahead))
            self.ahead = 0
        self._close_call()

    def _close_call(self) -> None:
        self.skip(self.ahead)
        self._leave()

    def _wait(self) -> NeedData | None:
        """The body is not complete; at the end of the output it is dropped."""
        return self._end() if self.final else NEED_DATA


@dataclass
class HarmonyReasoning(Harmony):
    """The channel analysis as reasoning: gpt-oss."""

    reasons = True


def structural_tag(tools: Sequence[Tool], tool_choice: ToolChoice) -> Mapping[str, Any] | None:
    """Calls as the model writes them: behind the prompt and, where nothing else may come, behind another message."""
    tags = [
        call_tag(f"{begin}{CHANNEL}commentary {RECIPIENT}{FUNCTIONS}{tool.name} {CONSTRAIN}json{MESSAGE}", tool, CALL)
        for tool in offered_tools(tools, tool_choice)
        for begin in ("", *((f"{START}{ROLE}",) if tool_choice != "auto" else ()))
    ]
    return call_tags(tags, tool_choice, separator="", triggers=(f"{CHANNEL}commentary {RECIPIENT}",))


plugin = MachinePlugin(
    Harmony,
    special_tokens=MARKERS,
    tool_call_openers=(CHANNEL,),
    structural_tag=structural_tag,
    families=[
        ModelFamily(("gpt-oss",), template=(f"{CHANNEL}analysis{MESSAGE}",)),
    ],
)
reasoning = MachinePlugin(
    HarmonyReasoning,
    special_tokens=MARKERS,
    families=[
        ModelFamily(("gpt-oss",), template=(f"{CHANNEL}analysis{MESSAGE}",)),
    ],
)
