"""Hosts that a model may choose: public ones, and those that the user allows.

The check applies to addresses, not to names: a name is resolved, each of its addresses is checked, and the
caller connects to a checked address. So neither another spelling of a host nor a DNS change after the check
leads elsewhere.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias

import anyio
from attrs import field, frozen
from returns.result import Failure, Result, Success

Address: TypeAlias = IPv4Address | IPv6Address

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves a host name and port to addresses; raises ``OSError`` if there are none."""

_GLOBAL_UNICAST = ip_network("2000::/3")
_NAT64 = ip_network("64:ff9b::/96")
_COMPATIBLE = ip_network("::/96")
_SPECIAL = tuple(
    map(
        ip_network,
        (
            "192.0.0.0/24",  # protocol assignments, of which older versions of ipaddress lack some
            "192.88.99.0/24",  # relays of 6to4, withdrawn
            "168.63.129.16/32",  # the host below a virtual machine on Azure
            "2001::/23",  # protocol assignments, tunnels among them
            "3fff::/20",  # documentation
        ),
    )
)

_NAME = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_MAX_NAME_CHARS = 253


def why_not_public(address: Address) -> str | None:
    """Return why an address is not public, such as "a loopback address".

    ``None`` if it is public. Of an IPv6 address with an embedded IPv4 address (mapped, compatible, 6to4,
    NAT64), the IPv4 address is checked.

    >>> why_not_public(ip_address("::ffff:127.0.0.1"))
    'a loopback address'
    >>> why_not_public(ip_address("8.8.8.8"))
    """
    address = unwrapped(address)
    kinds = (
        (address.is_unspecified, "the unspecified address"),
        (address.is_loopback, "a loopback address"),
        (address.is_link_local, "a link-local address"),
        (address.is_multicast, "a multicast address"),
        (any(address in network for network in _SPECIAL), "an address for special purposes"),
        (not address.is_global, "a private or reserved address"),
        (address.version == 6 and address not in _GLOBAL_UNICAST, "a reserved address"),
        (getattr(address, "scope_id", None) is not None, "an address on one network interface"),
    )
    return next((kind for applies, kind in kinds if applies), None)


def unwrapped(address: Address) -> Address:
    """Return the IPv4 address embedded in an IPv6 address, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64 or address in _COMPATIBLE:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


async def resolve_by_system(host: str, port: int) -> tuple[str, ...]:
    """Resolve a host with the operating system, preferred addresses first."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


def _normal_hosts(hosts: Iterable[str]) -> frozenset[str]:
    return frozenset(normal_host(host) for host in hosts)


@frozen(eq=False)
class AddressPolicy:
    """The allowed hosts.

    Attributes:
        allow_hosts: names and addresses that are allowed with any address; exact, without a port.
        resolve: finds the addresses of a name.
    """

    allow_hosts: frozenset[str] = field(default=frozenset(), converter=_normal_hosts)
    resolve: Resolver = resolve_by_system


def normal_host(host: str) -> str:
    """Return a host in lower case, or an address in the form of ``ipaddress``."""
    host = host.strip().removeprefix("[").removesuffix("]").lower()
    address = _literal(host)
    return host if address is None else str(address)


async def find_addresses(host: str, port: int, policy: AddressPolicy) -> Result[tuple[str, ...], str]:
    """Return the allowed addresses of a host, at least one.

    Fails with the reason why the host is refused.

    Args:
        host: the host of the URL in ASCII, without brackets.

    Raises:
        OSError, UnicodeError: the host could not be resolved.
    """
    host = normal_host(host)
    address = _literal(host)
    allowed = host in policy.allow_hosts
    if address is not None:
        kind = None if allowed else why_not_public(address)
        return Success((host,)) if kind is None else Failure(f"the host is {kind}.")
    problem = _problem_of_name(host, allowed=allowed)
    if problem is not None:
        return Failure(problem)
    found = tuple(await policy.resolve(host, port))
    if not found:
        raise OSError("the host has no address")
    for each in found:
        kind = None if allowed else why_not_public(ip_address(each))
        if kind is not None:
            return Failure(f"the host has {kind}.")
    return Success(found)


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _problem_of_name(host: str, *, allowed: bool) -> str | None:
    if not _NAME.fullmatch(host) or len(host) > _MAX_NAME_CHARS:
        return "the host is not a plain name such as example.com."
    last = host.rpartition(".")[2]
    if _NUMBER.fullmatch(last):
        return "the host is an address in an unusual spelling."
    if last == "localhost" and not allowed:
        return "the host is this machine."
    return None
