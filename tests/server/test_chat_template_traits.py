"""What templates expect of content, read from their syntax."""

from __future__ import annotations

import pytest

from derender_core.errors import TemplateError
from derender_server.template_traits import template_traits


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", "string"),
        ("{% for m in messages %}{{ m['content'] | trim }}{% endfor %}", "string"),
        ("{% for m in messages %}{% for line in m.content.split('x') %}{{ line }}{% endfor %}{% endfor %}", "string"),
        ("{{ messages[0].content[0] }}", "string"),
        ("{% for m in messages %}{{ m.content[:9] }}{% endfor %}", "string"),
        ("{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}", "openai"),
        ("{% for m in messages[1:] %}{% for p in m['content'] %}{{ p.text }}{% endfor %}{% endfor %}", "openai"),
        ("{% for m in messages %}{{ m.content[0].text }}{% endfor %}", "openai"),
        ("{% for m in messages %}{{ m['content'][0]['text'] }}{% endfor %}", "openai"),
        (
            "{% for m in messages %}{% set c = m.content %}{% set d = c %}{% for p in d %}{{ p.text }}{% endfor %}"
            "{% endfor %}",
            "openai",
        ),
        (
            "{% for m in messages %}{% for p in m.content | selectattr('type', 'equalto', 'text') %}{{ p.text }}"
            "{% endfor %}{% endfor %}",
            "openai",
        ),
        ("{% for p in messages[0].get('content', []) %}{{ p.text }}{% endfor %}", "openai"),
        (
            "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
            "{{ p.text }}{% endfor %}{% endif %}{% endfor %}",
            "either",
        ),
        (
            "{% macro show(content) %}{% if content is string %}{{ content }}{% else %}{% for p in content %}"
            "{{ p.text }}{% endfor %}{% endif %}{% endmacro %}{{ show(messages[0].content) }}",
            "either",
        ),
    ],
)
def test_content_format(source: str, expected: str) -> None:
    assert template_traits(source).content_format == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ messages[0].content }}", False),
        ("{% if messages[0].tool_calls is none %}{% endif %}", False),
        ("{% if messages[0]['content'] is none %}{% endif %}", True),
        ("{% if messages[0].content is not none %}{% endif %}", True),
        ("{% if messages[0].content != none %}{% endif %}", True),
        ("{% set c = messages[0].content %}{% if c is none %}{% endif %}", True),
    ],
)
def test_null_content(source: str, expected: bool) -> None:
    assert template_traits(source).tests_null_content is expected


def test_developer_role() -> None:
    assert template_traits("{% if m.role == 'developer' %}{% endif %}").knows_developer
    assert not template_traits("{{ m.role }}").knows_developer


def test_no_template() -> None:
    with pytest.raises(TemplateError):
        template_traits("{% if %}")
