"""Composition of containers by hand, from dependency-injector's providers.

A declarative container is a template, of which each instance makes a deep copy, neighbours included. For an
agent that is built for one request this was most of the work. Here a layer is a class that makes its
providers in its constructor, from the providers of the layers below it. What must stay true:

- The services that an agent is built with are the base of its providers. Overrides belong to users and tests,
  so resetting an override, or all singletons, leads back to what was built.
- A provider is composed once. It can be overridden, but never replaced, since the providers above hold it.
- Each singleton is made once, whichever threads ask for it.
- An engine does not run with services that were overridden after the engine, or a service that it uses, was
  made.
- A container that refers to a provider of a runtime refers to that very provider. The library copies the
  providers of a declarative container for each instance; those of a runtime are not copied.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import chain
from threading import RLock
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NoReturn, Protocol, Self, TypeAlias, TypeVar

from dependency_injector import containers, providers
from dependency_injector.providers import Object as Object  # also for modules outside of this package,
from dependency_injector.providers import Provider as Provider  # which import dependency-injector by it
from dependency_injector.providers import is_delegated, represent_provider
from returns.maybe import Maybe, Nothing, Some
from returns.result import Result

from reactive_agents.core.errors import ServiceFailed

Providers: TypeAlias = Mapping[str, providers.Provider[Any]]
"""The base providers of a layer, by their names."""

EMPTY: Mapping[Any, Any] = MappingProxyType({})
"""No providers, and no entries of any other kind."""

_A = TypeVar("_A")


class LateOverrideError(RuntimeError):
    """Raised when a service is overridden too late to reach what would use it."""

    def __init__(self, names: tuple[str, ...]) -> None:
        what = ", ".join(names)
        super().__init__(
            f"The override of {what} was set or reset after the engine, or a service that it uses, was made, "
            "and would have no effect: "
            "override before the first run, or call container.reset_singletons()."
        )
        self.names = names


class Layer(containers.DynamicContainer):
    """A container whose providers can be overridden, but not replaced.

    The providers that a layer is given are its base; it makes the others itself, those that are
    :class:`OnDemand` when they are first asked for.
    """

    on_demand: ClassVar[Mapping[str, OnDemand[Any]]] = EMPTY
    given: Providers
    below: tuple[Any, ...]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = {name: each for name, each in vars(cls).items() if isinstance(each, OnDemand)}
        cls.on_demand = {**cls.on_demand, **own}

    def __init__(self, given: Providers = EMPTY, *below: Any) -> None:
        super().__init__()
        self.__dict__.update(given=given, below=below)

    @property
    def providers(self) -> dict[str, Provider[Any]]:  # type: ignore[override]
        """The providers by their names; those on demand are made."""
        for name in self.on_demand:
            getattr(self, name)
        return self.made

    @property
    def made(self) -> dict[str, Provider[Any]]:
        """The providers that are made, by their names."""
        made: dict[str, Provider[Any]] = self.__dict__["providers"]  # as the library keeps them
        return made

    def provided(self, name: str) -> Any:
        """Return what a provider on demand gives, which is not made for what is absent."""
        kind = self.on_demand[name]
        is_absent = kind.default is None and name not in self.made and name not in self.given
        return kind.absent if is_absent else getattr(self, name)()

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; a provider is added under its name.

        Raises:
            AttributeError: the layer has a provider of that name.
        """
        known = self.__dict__
        if name in known or name in self.on_demand:
            is_known = name in self.on_demand or name in self.made
            if is_known and (name not in known or known[name] is not value):
                where = f"{type(self).__name__}.{name}"
                raise AttributeError(f"{where} cannot be replaced: override it, or use extra_layers.")
        if isinstance(value, _PLAIN):
            known["providers"][name] = known[name] = value  # as the library adds it, at half the time
        elif type(value) is providers.Container:
            known["providers"][name] = known[name] = value
            value.assign_parent(self)
        elif isinstance(value, Provider) and not isinstance(value, providers.Self):
            _add_provider(self, name, value)
        else:
            known[name] = value

    def reset_singletons(self) -> Any:
        """Forget every service, as a context manager at its end as well."""
        for each in self.traverse(types=[Singleton]):
            each.reset()
        return super().reset_singletons()

    def __deepcopy__(self, memo: dict[Any, Any] | None = None) -> Self:
        """Return the layer itself, for containers that refer to it."""
        return self

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled, with the reason.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "an agent cannot be pickled, since it has connections and functions: "
            "build it in the process that uses it"
        )


_add_provider = containers.DynamicContainer.__setattr__


class OnDemand(Generic[_A]):
    """A provider of a layer, made when it is first asked for.

    Most agents lack most services, and their programs do not override these.

    Args:
        absent: what is provided without a base provider and a default.
        default: makes the default of the layer, and of what is below it.
    """

    def __init__(self, absent: _A, default: Callable[..., Provider[Any]] | None = None) -> None:
        self.absent = absent
        self.default = default

    def __set_name__(self, owner: type[Layer], name: str) -> None:
        self._name = name

    def __get__(self, layer: Layer, owner: type[Layer]) -> Provider[_A]:
        """Return the provider, which the layer keeps as an attribute."""
        base = layer.given.get(self._name) or (
            None if self.default is None else self.default(layer, *layer.below)
        )
        made = OptionalService(base) if self.absent is Nothing else base or Object(self.absent)
        known = layer.made.setdefault(self._name, made)  # of whichever thread was the first
        layer.__dict__[self._name] = known
        return known


def by_path(runtime: Layer) -> Iterator[tuple[str, Provider[Any]]]:
    """Yield the made providers of a runtime, by paths such as ``models.llm``."""
    for prefix, layer in _layers(runtime):
        for name, each in tuple(layer.items()):
            yield f"{prefix}{name}", each


def _layers(runtime: Layer) -> Iterator[tuple[str, Mapping[str, Provider[Any]]]]:
    """Yield the made providers of each layer, with the prefix of their paths."""
    own: dict[str, Provider[Any]] = {}
    for name, provider in runtime.made.items():
        if isinstance(provider, providers.Container):
            layer = provider.container
            yield f"{name}.", layer.made if isinstance(layer, Layer) else layer.providers
        else:
            own[name] = provider
    yield "", own


class Service(Provider[Any]):
    """Makes a service whenever it is called.

    It is like the library's ``Callable``, at a fifth of the time: arguments are kept as they are given, and
    there is no support for services that are made by coroutines.

    Args:
        provides: makes the service of the further arguments, of which providers are called first; ``None``
            for no service, of an :class:`OptionalService`.
    """

    __slots__ = ("args", "kwargs", "provides")  # an agent has some forty, which the garbage collector reads

    def __init__(self, provides: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.provides: Any = provides
        self.args = args
        self.kwargs: Mapping[str, Any] = kwargs or EMPTY

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the service, or the service of an override."""
        overriding = self.last_overriding
        return self._provide(args, kwargs) if overriding is None else overriding(*args, **kwargs)

    def __deepcopy__(self, memo: dict[Any, Any] | None = None) -> Self:
        """Return the provider itself, for containers that refer to it."""
        return self

    def __str__(self) -> str:
        return represent_provider(self, self.provides)

    @property
    def related(self) -> Iterator[Provider[Any]]:
        """The providers of arguments and overrides, which a traversal visits."""
        for each in (self.provides, *self.args, *self.kwargs.values(), *self.overridden):
            if isinstance(each, Provider):
                yield each

    def _provide(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.kwargs:
            kwargs = {**{name: _provided(each) for name, each in self.kwargs.items()}, **kwargs}
        return self.provides(*map(_provided, self.args), *args, **kwargs)


_PLAIN = (Service, Object, providers.Delegate)
"""Providers that have no parent, and that are called for the service that they are an argument of."""


def _provided(argument: Any) -> Any:
    if isinstance(argument, _PLAIN):  # far cheaper to ask than what follows
        is_given = type(argument) is Object and argument.last_overriding is None
        return argument.provides if is_given else argument()
    return argument() if isinstance(argument, Provider) and not is_delegated(argument) else argument


class Singleton(Service):
    """Makes its service once, on first use, whichever threads ask for it.

    Each singleton has its own lock: a thread that waits for a service waits only for the services that it is
    made of.
    """

    __slots__ = ("_making", "_overrides", "_service")

    def __init__(self, provides: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(provides, *args, **kwargs)
        self._overrides = EMPTY  # with which the service was made, by what they override
        self._service: Any = None
        self._making = RLock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the service, or the service of an override."""
        if self.last_overriding is not None:
            return super().__call__(*args, **kwargs)
        service = self._service
        if service is None:
            with self._making:
                if self._service is None:
                    self._service = self._make(args, kwargs)
                service = self._service
        return service

    def reset(self) -> providers.SingletonResetContext:
        """Forget the service, as a context manager at its end as well."""
        with self._making:
            self._overrides = EMPTY
            self._service = None
        return providers.SingletonResetContext(self)

    @property
    def is_made(self) -> bool:
        """Whether the service is made."""
        return self._service is not None

    def changed(self) -> tuple[Provider[Any], ...]:
        """Return what has another override than when the service was made."""
        before, now = self._overrides, self._present_overrides()
        if not before and not now:  # so with nearly every run
            return ()
        return tuple(each for each in {**before, **now} if now.get(each) is not before.get(each))

    def _present_overrides(self) -> Mapping[Provider[Any], Provider[Any]]:
        """Return the overrides of what the service is made of, by what they override."""
        return _overrides(_inputs((*self.args, *self.kwargs.values())))

    def _make(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the service, and note the overrides with which it is made."""
        self._overrides = self._present_overrides()
        return self._provide(args, kwargs)


class OptionalService(Service):
    """Provides ``Some(service)`` or ``Nothing``, also for overrides with bare values."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.last_overriding is not None:
            return as_maybe(super().__call__(*args, **kwargs))
        return Nothing if self.provides is None else as_maybe(self._provide(args, kwargs))


class EngineProvider(Singleton):
    """Provides the engine, or its ports, made once.

    Args:
        make: makes the engine of the other arguments.
        runtime: has the providers whose overrides the engine uses, if they are set before it is made.
        types: the types of what providers may be overridden with, by their paths, where not a service.
    """

    __slots__ = ("_made", "_runtime", "_types")

    def __init__(
        self,
        make: Callable[..., Any],
        *args: Any,
        runtime: Layer,
        types: Mapping[str, tuple[type, ...]] = EMPTY,
        **kwargs: Any,
    ) -> None:
        super().__init__(make, *args, **kwargs)
        self._runtime = runtime
        self._types = types
        self._made: tuple[Mapping[str, Provider[Any]], ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the engine, or its override.

        Raises:
            LateOverrideError: the override of a service has changed since the engine, or a service that it
                uses, was made.
            TypeError: a provider is overridden with a value of a wrong type.
        """
        if self.last_overriding is None and self.is_made:
            self._refuse_late(self)
        made = super().__call__(*args, **kwargs)
        if self.last_overriding is None:
            return made
        path = next(path for path, each in by_path(self._runtime) if each is self)
        return checked(path, made, *self._types[path])

    def unchecked(self) -> Any:
        """Return the engine in spite of later overrides, to control its runs."""
        return super().__call__()

    @property
    def related(self) -> Iterator[Provider[Any]]:
        """The providers of the runtime, of which the engine is made."""
        yield from super().related
        for _, layer in _layers(self._runtime):
            yield from tuple(layer.values())

    def _present_overrides(self) -> Mapping[Provider[Any], Provider[Any]]:
        """Return the overrides of what is made by now of the providers of each layer."""
        if not self._made:  # the layers stay as they are, and each adds to its own
            self._made = tuple(layer for _, layer in _layers(self._runtime))
        return _overrides(chain.from_iterable([tuple(layer.values()) for layer in self._made]))

    def _make(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        ports = next((each for each in self.args if isinstance(each, EngineProvider)), None)
        if ports is not None and ports.last_overriding is None:  # the engine is made of what they are made of
            made = self._provide(args, kwargs)
            self._overrides = ports._overrides
            return made
        self._overrides = self._present_overrides()
        for path, each in by_path(self._runtime) if self._overrides else ():
            given = self._overrides.get(each)
            if given is None:
                continue
            if path in self._types:
                checked(path, each(), *self._types[path])
            elif isinstance(each, OptionalService) and isinstance(given, Object):
                as_maybe(given(), f"{path}: ")
        for _, each in by_path(self._runtime):  # some may be made before, as the bus for its first subscriber
            kept = each.provides if isinstance(each, OptionalService) else each
            if isinstance(kept, Singleton) and kept.is_made:
                self._refuse_late(kept)
        return self._provide(args, kwargs)

    def _refuse_late(self, made: Singleton) -> None:
        late = made.changed()
        if late:
            raise LateOverrideError(tuple(path for path, each in by_path(self._runtime) if each in late))


def _overrides(of: Iterable[Provider[Any]]) -> Mapping[Provider[Any], Provider[Any]]:
    """Return the present overrides of providers, by what they override."""
    return {each: each.last_overriding for each in of if each.last_overriding is not None} or EMPTY


def _inputs(arguments: Iterable[object]) -> list[Provider[Any]]:
    """Return the providers among arguments, and those that such providers call."""
    found: list[Provider[Any]] = []
    for each in arguments:
        if isinstance(each, Provider):
            found.append(each)
            if type(each) is Object or isinstance(each, Singleton):  # as nearly every one
                continue
            if isinstance(each, (Service, providers.Callable)):
                found += _inputs(each.related)
    return found


def checked(path: str, given: _A, *types: type) -> _A:
    """Return what the provider of a path gives.

    Raises:
        TypeError: it is of none of these types.
    """
    if not isinstance(given, types):
        expected = " or ".join(kind.__name__ for kind in types).replace("NoneType", "None")
        raise TypeError(f"{path}: got {given!r:.80}, expected {expected}")
    return given


def as_maybe(service: Any, place: str = "") -> Maybe[Any]:
    """Return a service as a ``Maybe``: ``Nothing`` for ``None`` and ``Some(None)``.

    Args:
        place: the path of its provider and a colon, for the error.

    Raises:
        TypeError: it is a class.
    """
    if service is None or service is Nothing:
        return Nothing
    found = service.unwrap() if type(service) is Some else service
    if isinstance(found, type):
        raise TypeError(
            f"{place}got the class {found.__name__}, expected a service, such as an object of that class"
        )
    return Nothing if found is None else Some(found)


# --- Opening services before an agent's runs, and closing them with the agent ----------------------------


Open: TypeAlias = Callable[[], Awaitable[Result[None, ServiceFailed]]]
Close: TypeAlias = Callable[[], Awaitable[None]]


class _HasClose(Protocol):
    async def aclose(self) -> None: ...


_Closable = TypeVar("_Closable", bound=_HasClose)


class Lifetimes:
    """Opens services in the order of creation, and closes them in reverse, repeatedly."""

    def __init__(self) -> None:
        self._opens: list[Open] = []
        self._closes: list[tuple[Close, Close]] = []

    def keep(self, service: _Closable) -> _Closable:
        """Return a service, which will be closed whenever the agent is."""
        self.add(service.aclose)
        return service

    def add(self, close: Close, open: Open | None = None, leave: Close | None = None) -> None:
        """Manage a service.

        Args:
            close: called whenever the agent is closed; a second call must do no harm.
            leave: called in its place when only this event loop ends; leaves the service to others.
            open: called before each run, possibly by several runs and event loops at the same time; opens the
                service once, and does nothing if it is open.
        """
        self._closes.append((close, leave or close))
        if open is not None:
            self._opens.append(open)

    def opens(self) -> tuple[Open, ...]:
        """Return functions that open the services, if they are closed."""
        return tuple(self._opens)

    async def aclose(self, *, leaving: bool = False) -> None:
        """Close everything, for the event loop that is running.

        Args:
            leaving: whether services that other event loops use stay open.

        Raises:
            ExceptionGroup: the failures; every service was asked to close nevertheless.
        """
        problems: list[Exception] = []
        for close, leave in reversed(tuple(self._closes)):
            try:
                await (leave() if leaving else close())
            except Exception as error:  # noqa: BLE001 - one service must not keep the others open
                problems.append(error)
        if problems:
            raise ExceptionGroup("Not everything could be closed.", problems)
