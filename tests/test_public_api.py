"""The public names are complete, sorted and documented."""

import ast
import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

import derender_core
import derender_core.testing
import derender_plugins

PUBLIC = [derender_core, derender_core.testing]
MODULES = [
    importlib.import_module(info.name)
    for package in (derender_core, derender_plugins)
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]
CORE_MODULES = [module for module in MODULES if module.__name__.startswith("derender_core.")]


def order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, each by the alphabet: what the linter asks of ``__all__``."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def defined_names(module: ModuleType) -> set[str]:
    """Names that a module imports or defines at its top level and that are not private."""
    names: set[str] = set()
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
    return {name for name in names if not name.startswith("_")} - {"annotations"}


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_all_is_sorted_and_has_no_doubles(module: ModuleType) -> None:
    assert list(module.__all__) == sorted(set(module.__all__), key=order)


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_all_is_complete(module: ModuleType) -> None:
    assert defined_names(module) == {name for name in module.__all__ if not name.startswith("__")}


@pytest.mark.parametrize(
    ("module", "name"),
    [pytest.param(module, name, id=f"{module.__name__}.{name}") for module in PUBLIC for name in module.__all__],
)
def test_every_public_name_exists_and_is_documented(module: ModuleType, name: str) -> None:
    value = getattr(module, name)
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return
    documented = (value.__doc__ or "").strip()
    assert documented
    assert not documented.startswith(f"{name}(")  # what dataclasses write when nobody did
    if inspect.isclass(value):
        silent = [
            method
            for method, member in vars(value).items()
            if not method.startswith("_") and inspect.isfunction(member) and not (member.__doc__ or "").strip()
        ]
        assert silent == []


@pytest.mark.parametrize("module", CORE_MODULES, ids=lambda module: module.__name__)
def test_every_core_module_says_what_it_exports(module: ModuleType) -> None:
    assert "__all__" in vars(module)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert list(module.__all__) == sorted(module.__all__, key=order)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_module_is_documented(module: ModuleType) -> None:
    assert (module.__doc__ or "").strip()


def test_every_exception_is_public_and_drawn_in_the_tree() -> None:
    from derender_core import errors

    assert set(errors.__all__) <= set(derender_core.__all__)
    assert [name for name in errors.__all__ if name not in (errors.__doc__ or "")] == []
