"""The events of a Response's stream.

Some of them repeat what was said: the ``done`` events of a part have its whole text, and the last event has the whole
Response. A state that held all this would grow with the output and travel with every chunk. The one who forwards the
events can keep it at no cost, and hands it in as a ``Transcript`` with the chunk that needs it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from derender_core.errors import InputError
from derender_server.chat import CallIds
from derender_server.parts import Closed, Grown, Opened, Part, PartChange, PartTracker
from derender_server.responses_items import ITEM_TYPES, item_body, item_id, text_part
from derender_server.wire.api_derender import Transcript

__all__ = ["ResponseEvents"]

Event = dict[str, Any]
HOW = (
    "Send the same chunk and stream_state again with transcript: output are the items of the response.output_item.done "
    "events so far, text the joined deltas of the item that is open"
)


class ResponseEvents:
    """Makes the events of one chunk.

    Args:
        ids: of the response.
        number: ``sequence_number`` of the next event.
        tracker: the parts of the stream, as they are before the chunk.
        transcript: tells what was said before the chunk, if the caller does; asked only when it is said again.

    Attributes:
        number: ``sequence_number`` of the event behind these.
    """

    def __init__(
        self, ids: CallIds, number: int, tracker: PartTracker, transcript: Callable[[], Transcript | None]
    ) -> None:
        self.number = number
        self._ids, self._transcript = ids, transcript
        self._carried = tracker.open
        self._carried_checksum = tracker.checksum
        self._closed_before = tracker.count - (tracker.open is not None)
        self._closed: list[Event] = []
        self._texts: list[str] = []

    def numbered(self, kind: str, **fields: Any) -> Event:
        """An event with the next number."""
        event = {"type": kind, "sequence_number": self.number, **fields}
        self.number += 1
        return event

    def of(self, change: PartChange) -> Iterator[Event]:
        """The events of what changed in a part.

        Raises:
            InputError: a text must be repeated and the transcript is missing, or is not what was said.
        """
        if isinstance(change, Opened):
            self._texts = []
            yield from self._opened(change.part)
        elif isinstance(change, Grown):
            self._texts.append(change.text)
            kind = {"text": "output_text", "reasoning": "reasoning_text", "call": "function_call_arguments"}
            more: Event = {"logprobs": []} if change.part.kind == "text" else {}
            yield self.numbered(
                f"response.{kind[change.part.kind]}.delta", **self._place(change.part), delta=change.text, **more
            )
        elif isinstance(change, Closed):
            yield from self._done(change.part, self._whole_text(change.part), change.complete)

    def output(self) -> list[Event]:
        """All items of the Response, once it has ended.

        Raises:
            InputError: items were closed before this chunk, and the transcript is missing or is not what was said.
        """
        return [*self._earlier_items(), *self._closed]

    def _place(self, part: Part) -> Event:
        place: Event = {"item_id": item_id(part, self._ids), "output_index": part.index}
        return place if part.kind == "call" else place | {"content_index": 0}

    def _opened(self, part: Part) -> Iterator[Event]:
        item = item_body(part, None, "in_progress", self._ids)
        yield self.numbered("response.output_item.added", output_index=part.index, item=item)
        if part.kind != "call":
            yield self.numbered("response.content_part.added", **self._place(part), part=text_part(part, ""))

    def _done(self, part: Part, text: str, complete: bool) -> Iterator[Event]:
        place = self._place(part)
        if part.kind == "call":
            if complete:
                kind = "response.function_call_arguments.done"
                yield self.numbered(kind, **place, name=part.name, arguments=text)
        else:
            kind = "output_text" if part.kind == "text" else "reasoning_text"
            more: Event = {"logprobs": []} if part.kind == "text" else {}
            yield self.numbered(f"response.{kind}.done", **place, text=text, **more)
            yield self.numbered("response.content_part.done", **place, part=text_part(part, text))
        item = item_body(part, text, "completed" if complete else "incomplete", self._ids)
        self._closed.append(item)
        yield self.numbered("response.output_item.done", output_index=part.index, item=item)

    def _whole_text(self, part: Part) -> str:
        text = "".join(self._texts)
        if self._carried is None or part.index != self._carried.index:
            return text
        given = self._given("closes an output item, whose text the API repeats").text
        if zlib.crc32(given.encode(errors="surrogatepass")) != self._carried_checksum:
            raise InputError(
                "transcript.text is not what the deltas of the open item said; join all of them, in order, from its "
                "response.output_item.added on",
                "transcript.text",
            )
        return given + text

    def _earlier_items(self) -> Sequence[Event]:
        if self._closed_before == 0:
            return ()
        items = self._given("ends the stream, and the API repeats all items then").output
        if len(items) != self._closed_before:
            raise InputError(
                f"transcript.output has {len(items)} items; there were {self._closed_before} "
                "response.output_item.done events",
                "transcript.output",
            )
        for at, item in enumerate(items):
            kinds = [kind for kind, name in ITEM_TYPES.items() if name == item.get("type")]
            if not kinds or item.get("id") != item_id(Part(at, kinds[0]), self._ids):  # type: ignore[arg-type]
                raise InputError(
                    f"transcript.output.{at} is not the item of response.output_item.done number {at}",
                    f"transcript.output.{at}",
                )
        return items

    def _given(self, why: str) -> Transcript:
        transcript = self._transcript()
        if transcript is None:
            raise InputError(f"transcript is required: this chunk {why}. {HOW}", "transcript")
        return transcript
