"""The sandbox that chat templates run in: what it offers and what it forbids."""

from __future__ import annotations

from typing import Any

import pytest

from derender_core.errors import InputError, TemplateError
from derender_server.template_sandbox import JsonArguments, compile_template, render_template

ARGUMENTS = JsonArguments({"text": 1, "items": 2, "on": False}, '{"text":1, "items":2, "on":false}')


def render(source: str, **variables: Any) -> str:
    return render_template(source, variables)


def test_block_lines_leave_no_blanks() -> None:
    assert render("a\n    {% if true %}\nb\n    {% endif %}\nc\n") == "a\nb\nc"


def test_loop_controls() -> None:
    assert render("{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% if i == 3 %}{% break %}"
                  "{% endif %}{% endfor %}") == "023"  # fmt: skip


def test_generation_blocks_give_their_body_and_keep_their_variables() -> None:
    source = "{% set x = 1 %}{% generation %}{% set x = 2 %}<{{ x }}>{% endgeneration %}{{ x }}"
    assert render(source) == "<2>1"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ v | tojson }}", '{"b": "<é>\'&", "a": [true, null]}'),
        ("{{ v | tojson(ensure_ascii=true) }}", '{"b": "<\\u00e9>\'&", "a": [true, null]}'),
        ("{{ v | tojson(separators=(',', ':'), sort_keys=true) }}", '{"a":[true,null],"b":"<é>\'&"}'),
        ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
        ("{{ v['a'] | tojson(false, 1) }}", "[\n true,\n null\n]"),
    ],
)
def test_tojson_is_that_of_transformers(source: str, expected: str) -> None:
    assert render(source, v={"b": "<é>'&", "a": [True, None]}) == expected


def test_strftime_now() -> None:
    assert len(render("{{ strftime_now('%Y-%m-%d') }}")) == 10


def test_raise_exception_gives_the_templates_own_words() -> None:
    with pytest.raises(TemplateError) as info:
        render("{{ raise_exception('Roles must alternate.') }}")
    assert str(info.value) == "Roles must alternate."
    assert isinstance(info.value, InputError)


@pytest.mark.rule("8.7")
@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__class__.__base__.__subclasses__() }}",
        "{{ lipsum.__globals__['os'].popen('id') }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ raise_exception.__globals__.jinja2 }}",
        "{{ dict.__class__.__init__.__globals__ }}",
        "{{ namespace.__init__.__globals__ }}",
        "{% set n = namespace(__class__=1) %}",
        "{% set n = namespace() %}{% set n.__class__ = 1 %}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(role='x') }}",
        "{{ messages.clear() }}",
        "{% include '/etc/hostname' %}",
        "{% import 'os' as os %}",
        "{{ open('/etc/hostname').read() }}",
        "{{ self.__init__.__globals__ }}",
        "{{ (messages | attr('__class__')).__mro__ }}",
        "{{ '{0.__class__.__mro__}'.format(messages) | length // 0 }}",
        "{{ range(999999999) | list }}",
        "{{ undefined_variable.attribute }}",
        "{{ 'a' + none }}",
        "{{ 1 // 0 }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    ],
)
def test_what_a_template_may_not_do_is_a_template_error(source: str) -> None:
    messages = [{"role": "user"}]
    with pytest.raises(TemplateError):
        render(source, messages=messages)
    assert messages == [{"role": "user"}]


@pytest.mark.rule("8.7")
@pytest.mark.parametrize(
    "source",
    [
        "{{ '{0.__class__}'.format(a) }}",
        "{{ a._JsonArguments__text }}",
        "{{ a.__class__ }}",
        "{{ a | attr('__str__') }}",
    ],
)
def test_internals_print_as_nothing(source: str) -> None:
    assert render(source, a=ARGUMENTS) == ""


def test_a_syntax_error_says_the_line() -> None:
    with pytest.raises(TemplateError, match="not a valid jinja2 template in line 2"):
        compile_template("a\n{% for %}")


def test_compiled_templates_are_kept() -> None:
    assert compile_template("{{ 1 }}") is compile_template("{{ 1 }}")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ a | tojson }}", '{"text": 1, "items": 2, "on": false}'),
        ("{{ '```json\n' + a + '\n```' }}", '```json\n{"text":1, "items":2, "on":false}\n```'),
        ("{{ a + '!' }}", '{"text":1, "items":2, "on":false}!'),
        ("{{ a }}|{{ a | string }}|{{ '' ~ a }}", "|".join(['{"text":1, "items":2, "on":false}'] * 3)),
        ("{{ a is mapping }} {{ a is string }}", "True False"),
        ("{{ a.text }} {{ a['items'] }}", "1 2"),
        ("{% for key, value in a | items %}{{ key }}={{ value }};{% endfor %}", "text=1;items=2;on=False;"),
    ],
)
def test_arguments_serve_templates_that_want_an_object_and_those_that_want_text(source: str, expected: str) -> None:
    assert render(source, a=ARGUMENTS) == expected
