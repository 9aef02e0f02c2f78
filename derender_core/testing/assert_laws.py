"""Holding a parser to all laws, over its golden cases and over marker soup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from derender_core.errors import ParserError
from derender_core.inputs import Delta, ParseContext, Special, Tool
from derender_core.pipeline import Pipeline
from derender_core.registry import Parser
from derender_core.testing.cases import Case
from derender_core.testing.laws import LAWS, Law, Sample, state_is_bounded
from derender_core.testing.open_case import open_case
from derender_core.testing.soup import DEFAULT_MARKERS, find_markers, marker_soup
from derender_core.testing.trace import Failed, Parses
from derender_core.tokenizer import ModelTokenizer

__all__ = ["assert_laws", "assert_samples", "case_samples", "soup_samples"]

# What a request offers where no case says it.
_TOOLS = (Tool("ping", {"type": "object", "properties": {"a": {"type": "string"}}}),)


def assert_laws(
    parser: Parser,
    cases: Sequence[Case] = (),
    *,
    soup: int = 100,
    seed: int = 0,
    markers: Sequence[str] = (),
    laws: Sequence[Law] = LAWS,
    tokenizer: ModelTokenizer | None = None,
) -> None:
    """Hold a parser to the laws.

    Args:
        parser: the parser; ``make_parser`` makes one of a plugin object.
        cases: its golden cases. Their outputs are samples, and what soup is made of.
        soup: how many soups.
        seed: the first soup's seed.
        markers: the format's markers, where the parser does not name them and no case holds them.
        laws: which laws.
        tokenizer: for cases of token ids whose tokenizer does not lie beside the corpus.

    Raises:
        Failed: a law does not hold. Names the law and the sample.
        CaseError: token ids without their tokenizer, or with another one.
    """
    __tracebackhide__ = True
    samples = [
        *case_samples(parser, cases, tokenizer),
        *soup_samples(parser, cases, soup=soup, seed=seed, markers=markers),
    ]
    bounded = [sample for sample in samples if sample.clean][:8] or samples[:1]
    for law in laws:
        assert_samples(parser, bounded if law is state_is_bounded else samples, laws=[law])


def assert_samples(parser: Parses, samples: Iterable[Sample], *, laws: Sequence[Law] = LAWS) -> None:
    """Hold a parser or a pipeline to the laws over samples of one's own.

    Raises:
        Failed: a law does not hold. Names the law and the sample.
    """
    __tracebackhide__ = True
    for sample in samples:
        for law in laws:
            try:
                law(parser, sample)
            except (Failed, ParserError) as error:
                raise Failed(f"{_name(parser)} breaks the law {law.__name__}\n{sample}\n{error}") from error


def _name(parser: Parses) -> str:
    if isinstance(parser, Pipeline):
        return "pipeline of " + " and ".join(str(one) for one in (parser.reasoning, parser.tool) if one is not None)
    return str(parser)


def case_samples(parser: Parser, cases: Sequence[Case], tokenizer: ModelTokenizer | None = None) -> Iterator[Sample]:
    """The outputs of cases that this parser can be given alone: calls that nobody forced, no other parser in front."""
    for case in cases:
        if case.tool_choice not in ("auto", "none") or (parser.slot == "tool" and not case.tools):
            continue
        alone = case.parsers.reasoning is None if parser.slot == "tool" else case.parsers.tool is None
        valid = bool(case.alternatives) and not {"cut", "malformed", "announced"} & set(case.tags)
        opened = open_case(case, _alone(parser), tokenizer=tokenizer)
        for context in _contexts(parser, opened.request.tools):
            request = replace(context, has_token_ids=opened.request.has_token_ids)
            yield Sample(f"case {case}", opened.output, request, clean=alone and valid)


def _alone(parser: Parser) -> Pipeline:
    return Pipeline(parser) if parser.slot == "tool" else Pipeline(reasoning=parser)


def soup_samples(
    parser: Parser, cases: Sequence[Case] = (), *, soup: int = 100, seed: int = 0, markers: Sequence[str] = ()
) -> Iterator[Sample]:
    """Seeded soups of the parser's markers and of pieces of its cases; in some, special tokens made the markers."""
    texts = [case.text for case in cases if case.text]
    contexts = list(_contexts(parser, _offered(cases)))
    declared = (*parser.tool_call_openers(contexts[0]), *parser.special_tokens(contexts[0]))
    known = tuple(dict.fromkeys((*markers, *declared, *find_markers(texts)))) or DEFAULT_MARKERS
    for number in range(seed, seed + soup):
        text = marker_soup(number, known, texts)
        reason = ("stop", "length", "stop", None)[number % 4]
        specials = _specials(text, parser.special_tokens(contexts[0])) if number % 3 == 2 else ()
        output = Delta(text, specials, final=True, finish_reason=reason)
        context = replace(contexts[number % len(contexts)], has_token_ids=bool(specials))
        yield Sample(f"marker soup, seed {number}", output, context)


def _specials(text: str, tokens: Sequence[str]) -> tuple[Special, ...]:
    """Most of the places where these texts stand, as if special tokens had made them; the others are look-alikes."""
    pattern = re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) or "(?!)")
    found = [match for match in pattern.finditer(text) if (match.start() + 1) % 5]
    return tuple(Special(*match.span(), 1000 + tokens.index(match[0])) for match in found)


def _offered(cases: Sequence[Case]) -> tuple[Tool, ...]:
    tools = {tool.name: Tool(tool.name, tool.parameters) for case in cases for tool in case.tools}
    return (*_TOOLS, *list(tools.values())[:8])


def _contexts(parser: Parser, tools: tuple[Tool, ...]) -> Iterator[ParseContext]:
    """The requests to try: a reasoning parser begins inside reasoning, outside, or does not know."""
    context = ParseContext(tools=tools)
    if parser.slot == "tool":
        yield context
        return
    for is_open in (True, False, None):
        yield replace(context, reasoning_open=is_open)
    yield replace(context, tools=tools or _TOOLS, reasoning_open=True, tool_call_openers=("<tool_call>",))
