"""``ListCallMachine``: a JSON list of calls behind a marker, or where the answer begins, read element by element.

    output := (text | opener blank list [blank closer])*
    list   := "[" [object ("," object)*] "]" | object

An object counts as soon as a comma or the bracket follows it, so a list that was cut keeps the calls that were
complete; at a normal end the last one needs neither. An object that is no call is text, and so is what cannot go on as
a list; the markers around it come back with it unless a call of the list was good. Without an opener only calls of
offered functions count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from derender_core.hookspecs import State
from derender_core.json_call import JsonCallMachine
from derender_core.json_scan import in_string
from derender_core.json_text import ARGUMENT_KEYS, Call, parse_object
from derender_core.machine import NEED_DATA, NeedData

__all__ = ["ListCallMachine"]


@dataclass
class ListCallMachine(JsonCallMachine):
    """Base of tool parsers with lists of ``{"name", "arguments"}`` objects. A subclass sets its markers.

    The region is what stands in front of the next object (opener, bracket, comma), and that object at ``body``.

    Args:
        marked: whether an opener stands in front of the calls.
        listed: whether they stand in a list; otherwise it is one object by itself.
        good: whether one of them was a call.
        lead: what was read of the list and comes back as text unless a call follows.
        bad: the objects in it that are no calls, which come back even then.
        quoted: whether an opener came back as text, so that its closer does, too.
    """

    phase: str = "lead"
    marked: bool = False
    listed: bool = False
    good: bool = False
    lead: str = ""
    bad: str = ""
    quoted: bool = False

    openers: ClassVar[tuple[str, ...]] = ()
    words: ClassVar[tuple[str, ...]] = ()
    """Openers that are words of the language: they count only where the answer or a line begins."""
    closers: ClassVar[tuple[str, ...]] = ()
    """Markers that may stand behind a list. Elsewhere they vanish."""
    noise: ClassVar[tuple[str, ...]] = ()
    """Markers that are never text: they vanish."""
    ends_message: ClassVar[tuple[str, ...]] = ()
    """Markers behind which the model runs on into another turn: the rest of the output is ignored."""
    leads: ClassVar[bool] = False
    """Whether a list or an object needs no opener where the answer begins."""
    argument_keys: ClassVar[tuple[str, ...]] = ARGUMENT_KEYS
    """The keys of the arguments, the preferred first."""

    # -- text --------------------------------------------------------------------------------------------------------

    def read_lead(self) -> NeedData | None:
        """Where the answer begins a list may stand without its opener."""
        anything = self.leads or bool(self.words)
        char = self.skip_blank() if anything else ""
        if anything and char == "" and not self.final:
            return NEED_DATA
        word = self.which(self.words) if char else ""
        if word is None:
            return NEED_DATA
        if word:
            blank, self.ahead = self.ahead, 0
            self.content(self.take(blank))
            self.open(word)
        elif self.leads and char in ("[", "{"):
            self.phase = "head"
        else:
            self.begin_region()
            self.phase = "content"
        return None

    def read_content(self) -> NeedData | None:
        """Text until an opener. Closers without a list are swallowed."""
        openers = (*self.openers, *(f"\n{word}" for word in self.words))
        marker = self.content_until((*openers, *self.closers, *self.noise, *self.ends_message))
        if marker is None:
            return NEED_DATA
        if marker in openers:
            self.open(marker)
        elif marker in self.closers and self.quoted:
            self.content(self.take(len(marker)))
            self.quoted = False
        elif marker in self.ends_message:
            self.phase = "done"
        else:
            self.skip(len(marker))
            self.removed = True
        return None

    # -- a list ------------------------------------------------------------------------------------------------------

    def open(self, opener: str) -> None:
        """Begin a region at the cursor, where ``opener`` stands. The line break in front of a word is text."""
        if opener.startswith("\n"):
            self.content(self.take(1))
            opener = opener[1:]
        self.begin_region(opener)
        self.marked, self.quoted, self.phase = True, False, "head"

    def begin_region(self, opener: str = "") -> None:
        """As ``RegionMachine.begin_region``, and the list with it."""
        super().begin_region(opener)
        self.marked = self.listed = self.good = False
        self._forget_lead()

    def _forget_lead(self) -> None:
        self.set_text("lead", "")
        self.set_text("bad", "")

    def read_head(self) -> NeedData | None:
        """From the opener to the list, or to one object."""
        char = self.skip_blank()
        if char == "":
            return self.wait()
        if char not in ("[", "{"):
            self.other_form(char)
            return None
        self.listed, self.phase = char == "[", "element"
        self.ahead += self.listed
        return None

    def other_form(self, char: str) -> None:  # noqa: ARG002 - subclasses look at it
        """Neither a list nor an object follows the opener: it is text."""
        self.reject()

    def read_element(self) -> NeedData | None:
        """The next object, or the end of the list."""
        char = self.skip_blank()
        if char == "{":
            self.begin_value()
            self.body, self.phase = self.ahead, "object"
        elif char == "]" and self.listed:
            self.ahead += 1
            self.mark, self.phase = self.ahead, "tail"
        elif char == "":
            return self.wait()
        else:
            self.reject()
        return None

    def may_announce(self, name: str) -> bool:
        """Without an opener only an offered name is certain."""
        return bool(name) and (self.marked or name in self.context.tool_names)

    def read_object(self) -> NeedData | None:
        """An object."""
        progress = self.walk_object()
        if progress == "more":
            return self.wait()
        if progress == "bad":
            self.reject()
            return None
        self.mark, self.phase = self.ahead, "next"
        return None

    def read_next(self) -> NeedData | None:
        """What follows an object. One that stands by itself is complete."""
        char = self.skip_blank() if self.listed else "]"
        if char == "":
            return self.wait()
        if char not in (",", "]"):
            self.reject()
            return None
        comma = self.ahead - self.mark
        if self.take_object():
            self.ahead = comma + 1 if char == "," else 0
            self.phase = "element" if self.listed else "tail"
        return None

    def take_object(self) -> bool:
        """The object that ends at ``mark`` is complete: send the call that it is. Whether the list goes on."""
        if self.announced:
            self.take(self.mark)
            self.end_call()
            self._forget_object()
            return True
        call = self.object_call(self.peek(self.mark - self.body, self.body))
        if call is None and not (self.marked or self.good):
            self.reject()
            return False
        gap, text = self.take(self.body), self.take(self.mark - self.body)
        self._forget_object()
        if call is not None:
            self.call(call)
        elif self.good:
            self.content(text)
        else:
            self.add_text("lead", gap + text)
            self.add_text("bad", text)
        return True

    def _forget_object(self) -> None:
        self.ahead = 0
        self.forget_region()

    def object_call(self, text: str) -> Call | None:
        """The call that an object is, if it is one."""
        call, _ = parse_object(text, keys=self.argument_keys, required=not self.marked, name_key=self.name_key)
        return call if call is not None and (self.marked or call.name in self.context.tool_names) else None

    def start_call(self, name: str, call_id: str | None = None) -> None:
        """The list's markers vanish with its first call; objects before it that were no calls are text."""
        if not self.good:
            self.removed, self.good = True, True
            self.content(self.text_of("bad"))
            self._forget_lead()
        super().start_call(name, call_id)

    @property
    def list_closers(self) -> tuple[str, ...]:
        """The markers that may stand behind this list."""
        return self.closers

    def read_tail(self) -> NeedData | None:
        """A closer belongs to the list, and blank text in front of it. Between markers several objects may stand."""
        closers = self.list_closers
        char = self.skip_blank() if closers else ""
        if closers and not char and not self.final:
            return NEED_DATA
        if char == "{" and self.marked and not self.listed:
            self.phase = "element"
            return None
        marker = self.which(closers) if char else ""
        if marker is None:
            return NEED_DATA
        if marker:
            self.ahead += len(marker)
        else:
            self.ahead = self.waiting if char and self.is_cut(closers, self.ahead) else self.mark
        self._end_list()
        return None

    def _end_list(self) -> None:
        text = self.text_of("lead") + self.take(self.ahead)
        if self.text_of("bad"):
            self.content(text)
        else:
            self.removed = True
        self.begin_region()
        self.phase = "content"

    # -- what is no list ---------------------------------------------------------------------------------------------

    def reject(self) -> None:
        """What was read of the region is text, without its markers when the list held a call.

        A string that did not end may have swallowed a closer: the region ends there, and the rest is read again.
        """
        end = self._first_closer(self.ahead)
        self.ahead = end or self.ahead
        gap = min(self.body, self.ahead) if end or self.phase in ("object", "next") else self.ahead
        if self.good:
            self.skip(gap)
            self.ahead -= gap
            self.content(self.take(self.ahead))
        else:
            self.quoted = self.marked and not end
            self.content(self.text_of("lead") + self.take(self.ahead))
        self.begin_region()
        self.phase = "content"

    def _first_closer(self, end: int) -> int:
        """Where the first closer ends that was read as part of a value, 0 when there is none."""
        if not self.body or self.announced:
            return 0
        start, stop = self._at + self.body, self._at + end
        found = [(at, closer) for closer in self.closers if (at := self.buffer.find(closer, start, stop)) >= 0]
        return min(found)[0] + len(min(found)[1]) - self._at if found else 0

    @property
    def in_string(self) -> bool:
        """Whether what was read of the region ends in a string."""
        return in_string(self.scan)

    # -- the end of the output ---------------------------------------------------------------------------------------

    def wait(self) -> NeedData | None:
        """The list is not complete; when nothing more comes, what is not complete of it is dropped."""
        if not self.final:
            return NEED_DATA
        if self.phase == "head" and any(map(self.starts, self.words)) and not any(map(self.starts, self.openers)):
            self.reject()
            return None
        if self.phase == "next" and self.ended_normally and not self.take_object():
            return None
        if self.ended_normally and self.in_string and self._first_closer(self.waiting):
            self.reject()
            return None
        if not (self.marked or self.good) and (self.ended_normally or self.name not in self.context.tool_names):
            self.reject()
            return None
        if self.text_of("bad") and self.ended_normally:
            self.content(self.text_of("lead"))
        self.removed = True
        self.skip(self.waiting)
        self.begin_region()
        self.phase = "content"
        return None

    @classmethod
    def check(cls, state: State) -> str | None:
        """As ``JsonCallMachine.check``, and that a list with a call had one."""
        wrong = super().check(state)
        if not wrong and state.get("good") and not state.get("calls"):
            return "field 'good' needs a call"
        return wrong
