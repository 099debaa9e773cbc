"""Imports that wait until something is used.

A program pays for the parts of a package that it uses: most programs have no persona, no MCP server and no
plan, and the time from the start of a process to the first answer is mostly that of imports. So the names of
a package are imported when they are first used (PEP 562), and dependency-injector is imported without the
libraries that it can work with: where FastAPI, Starlette, Werkzeug, pydantic-settings and PyYAML are
installed, it imports all of them, which takes three times as long as the agent itself.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``, by the module that each name comes from."""

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with uncollected():
            found = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return __getattr__


_has_frozen = False
"""Whether this program has frozen objects; it is asked no more then, since they are counted one by one."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage within the block, nor soon what it made.

    An import makes many objects, and nearly all of them stay: they go to the oldest generation at once,
    instead of being looked through for each. A program that has frozen its objects keeps them frozen.
    """
    global _has_frozen
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            _has_frozen = _has_frozen or gc.get_freeze_count() > 0
            if not _has_frozen:
                gc.freeze()
                gc.unfreeze()  # to the oldest generation
            gc.enable()


# --- dependency-injector --------------------------------------------------------------------------------


def import_injector() -> None:
    """Import dependency-injector, and what it can work with when that is first used.

    Nothing is missing afterwards: ``Configuration.from_yaml`` and ``from_pydantic`` and ``Container.wire``
    import what they need.
    """
    if "dependency_injector.containers" in sys.modules:
        return
    waiting = [
        _Waiting("yaml", SafeLoader=_WaitingLoader("SafeLoader", (), {})),
        _Waiting("pydantic_settings", BaseSettings=_WaitingSettings("BaseSettings", (), {})),
        _Waiting("dependency_injector.wiring", wire=_wire, unwire=_unwire),
    ]
    placed = [each for each in waiting if each.__name__ not in sys.modules and find_spec(each.__name__)]
    sys.modules.update({each.__name__: each for each in placed})
    try:
        import_module("dependency_injector.containers")
    finally:
        for each in placed:
            each.leave()


class _Waiting(ModuleType):
    """Stands for a module that is imported when more of it is used than is given."""

    def __init__(self, name: str, **given: object) -> None:
        super().__init__(name)
        vars(self).update(given)

    def __getattr__(self, name: str) -> Any:
        self.leave()
        return getattr(import_module(self.__name__), name)

    def leave(self) -> None:
        """Make place for the module."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


class _WaitingLoader(type):
    """The class of a placeholder for ``yaml.SafeLoader``."""

    def __call__(cls, *args: Any) -> Any:
        return import_module("yaml").SafeLoader(*args)

    def __getattr__(cls, name: str) -> Any:
        return getattr(import_module("yaml").SafeLoader, name)


class _WaitingSettings(type):
    """The class of a placeholder for ``pydantic_settings.BaseSettings``."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, import_module("pydantic_settings").BaseSettings)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, import_module("pydantic_settings").BaseSettings)


def _wire(*args: Any, **options: Any) -> Any:
    return import_module("dependency_injector.wiring").wire(*args, **options)


def _unwire(*args: Any, **options: Any) -> Any:
    return import_module("dependency_injector.wiring").unwire(*args, **options)
