"""The laws of the address guard: what is not public is refused, however it is written or resolved."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from returns.result import Failure, Success

from reactive_agents.adapters.tools.addresses import (
    Address,
    AddressPolicy,
    find_addresses,
    unwrapped,
    why_not_public,
)

STRICTER = tuple(
    map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "2001::/23", "3fff::/20"))
)

EDGES = (
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 "
    "192.168.0.0/16 198.18.0.0/15 224.0.0.0/4 240.0.0.0/4 ::/96 ::ffff:0:0/96 64:ff9b::/96 64:ff9b:1::/48 "
    "2001::/23 2002::/16 2001:db8::/32 fc00::/7 fe80::/10 ff00::/8"
)
networks = st.sampled_from([ip_network(edge) for edge in EDGES.split()])
within = networks.flatmap(lambda network: st.ip_addresses(network=network))
addresses = st.ip_addresses() | within

private = st.sampled_from(
    ["0.0.0.0/8", "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"]
)
private_addresses = private.flatmap(lambda network: st.ip_addresses(network=network))


@given(addresses)
@example(ip_address("::ffff:0.0.0.0"))
@example(ip_address("2002:ffff:ffff::"))
def test_the_verdict_is_that_of_ipaddress_on_what_is_inside(address: Address) -> None:
    inside = unwrapped(address)
    stricter = (
        inside.is_multicast
        or any(inside in network for network in STRICTER)
        or (inside.version == 6 and inside not in ip_network("2000::/3"))
    )
    public = why_not_public(address) is None
    assert public == (inside.is_global and not stricter)
    assert unwrapped(inside) == inside


def within_ipv6(address: IPv4Address) -> list[IPv6Address]:
    number = int(address)
    return [
        IPv6Address(0xFFFF << 32 | number),
        IPv6Address(number),
        IPv6Address(0x64_FF9B << 96 | number),
        IPv6Address(0x2002 << 112 | number << 80 | 1),
    ]


@given(st.ip_addresses(v=4))
def test_wrapping_an_address_changes_no_verdict(address: IPv4Address) -> None:
    for wrapped in within_ipv6(address):
        assert why_not_public(wrapped) == why_not_public(address)


def part(number: int, base: str) -> str:
    return {"decimal": str(number), "octal": f"0{number:o}", "hex": hex(number), "HEX": f"0X{number:X}"}[base]


bases = st.sampled_from(["decimal", "octal", "hex", "HEX"])


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """A private address in one of the ways that C libraries read, or wrapped into IPv6."""
    address = draw(private_addresses)
    number = int(address)
    if draw(st.booleans()):
        wrapped = draw(st.sampled_from(within_ipv6(address)))
        return draw(
            st.sampled_from([str(wrapped), wrapped.exploded, wrapped.exploded.upper(), f"[{wrapped}]"])
        )
    count = draw(st.integers(1, 4))
    leading = [number >> 24 & 255, number >> 16 & 255, number >> 8 & 255][: count - 1]
    rest = number & (1 << 8 * (5 - count)) - 1
    text = ".".join(part(each, draw(bases)) for each in [*leading, rest])
    return text + draw(st.sampled_from(["", "", "."]))


async def resolve_to_a_public_address(host: str, port: int) -> tuple[str, ...]:
    return ("8.8.8.8",)


@given(spellings())
def test_a_private_address_is_refused_in_every_spelling(host: str) -> None:
    policy = AddressPolicy((), resolve_to_a_public_address)
    assert isinstance(anyio.run(find_addresses, host, 80, policy), Failure)


hosts = st.text(max_size=30) | st.text("0123456789abcdefx.:[]%-_", max_size=30) | spellings()


@pytest.mark.parametrize("resolved", ["10.0.0.1", "::1", "8.8.8.8"])
def test_whatever_the_host_only_judged_addresses_come_out(resolved: str) -> None:
    async def resolve(host: str, port: int) -> tuple[str, ...]:
        return ("8.8.4.4", resolved)

    @given(hosts)
    def law(host: str) -> None:
        match anyio.run(find_addresses, host, 80, AddressPolicy((), resolve)):
            case Success(found):
                assert found
                assert all(why_not_public(ip_address(each)) is None for each in found)
            case Failure(reason):
                assert reason

    law()


@given(addresses)
def test_what_a_name_resolves_to_is_judged_like_the_address_itself(address: Address) -> None:
    async def resolve(host: str, port: int) -> tuple[str, ...]:
        return (str(address),)

    found = anyio.run(find_addresses, "example.com", 80, AddressPolicy((), resolve))
    assert isinstance(found, Success) == (why_not_public(address) is None)
