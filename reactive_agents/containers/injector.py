"""dependency-injector, imported in a quarter of its usual time.

It imports pydantic-settings, starlette and PyYAML wherever they are installed (here the MCP SDK brings them),
to ask whether a value belongs to one of their classes, and to load configurations from YAML. That takes a
third of the time from the start of a process to the first answer, and few programs need any of it. While it
is imported, placeholders take their places. They ask the real class once it is imported, since nothing can be
an instance of it before, and load YAML with the real library.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_CLASSES = {"pydantic_settings": "BaseSettings", "starlette.requests": "Request", "yaml": "SafeLoader"}
"""Modules, and the class that dependency-injector takes from each."""


class _Placeholder(type):
    """A class with the instances and subclasses of another, imported or not yet."""

    module: str

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls._real())

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls._real())

    def _real(cls) -> Any:
        return getattr(sys.modules.get(cls.module), cls.__name__, ())


def _load_yaml(text: Any, loader: Any) -> Any:
    yaml = import_module("yaml")
    return yaml.load(text, yaml.SafeLoader if isinstance(loader, _Placeholder) else loader)


def _import_quickly() -> None:
    absent = [module for module in _CLASSES if module not in sys.modules and find_spec(module.split(".")[0])]
    for module in absent:
        name = _CLASSES[module]
        placeholder: Any = ModuleType(module)
        setattr(placeholder, name, _Placeholder(name, (), {"module": module}))
        placeholder.load = _load_yaml
        sys.modules[module] = placeholder
    try:
        import_module("dependency_injector.containers")
    finally:
        for module in absent:
            del sys.modules[module]


if "dependency_injector.providers" not in sys.modules:
    _import_quickly()
