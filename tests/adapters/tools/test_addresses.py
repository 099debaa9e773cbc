"""Which addresses and host names a model may choose."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.addresses import (
    AddressPolicy,
    Resolver,
    find_addresses,
    normal_host,
    resolve_by_system,
    why_not_public,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "172.32.0.1",
        "100.128.0.1",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2002:808:808::1",
    ],
)
def test_public_addresses(address: str) -> None:
    assert why_not_public(ip_address(address)) is None


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("0.0.0.0", "the unspecified address"),
        ("0.1.2.3", "private or reserved"),
        ("10.0.0.1", "private or reserved"),
        ("100.64.0.1", "private or reserved"),
        ("100.100.100.200", "private or reserved"),
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("168.63.129.16", "special purposes"),
        ("169.254.169.254", "link-local"),
        ("172.16.0.1", "private or reserved"),
        ("192.0.0.8", "special purposes"),
        ("192.0.2.1", "private or reserved"),
        ("192.168.1.1", "private or reserved"),
        ("198.18.0.1", "private or reserved"),
        ("224.0.0.1", "multicast"),
        ("240.0.0.1", "private or reserved"),
        ("255.255.255.255", "private or reserved"),
        ("::", "the unspecified address"),
        ("::1", "private or reserved"),
        ("::127.0.0.1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:0:127.0.0.1", "reserved"),
        ("::ffff:169.254.169.254", "link-local"),
        ("64:ff9b::a00:1", "private or reserved"),
        ("64:ff9b:1::808:808", "reserved"),
        ("100::1", "private or reserved"),
        ("2001::1", "special purposes"),
        ("2001:db8::1", "private or reserved"),
        ("2002:7f00:1::", "loopback"),
        ("2002:c0a8:101::1", "private or reserved"),
        ("3fff::1", ""),
        ("4000::1", "reserved"),
        ("5f00::1", "reserved"),
        ("fc00::1", "private or reserved"),
        ("fd00:ec2::254", "private or reserved"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("2606:4700::1111%eth0", "one network interface"),
        ("fec0::1", "reserved"),
        ("ff02::1", "multicast"),
    ],
)
def test_addresses_that_are_not_public(address: str, kind: str) -> None:
    found = why_not_public(ip_address(address))
    assert found is not None
    assert kind in found


def names(**known: tuple[str, ...]) -> Resolver:
    """A DNS that knows the given names with ``.example`` behind them."""

    async def resolve(host: str, _: int) -> tuple[str, ...]:
        return known[host.removesuffix(".example")]

    return resolve


async def nobody_asks(host: str, _: int) -> tuple[str, ...]:
    raise AssertionError(f"{host} was resolved")


async def find(host: str, resolve: Resolver = nobody_asks, *allow: str) -> Result[tuple[str, ...], str]:
    return await find_addresses(host, 80, AddressPolicy(allow, resolve))


async def test_a_host_is_what_all_of_its_addresses_are() -> None:
    dns = names(good=("8.8.8.8", "2606:4700::1111"), mixed=("8.8.8.8", "10.0.0.1"), bad=("::ffff:10.0.0.1",))
    assert await find("good.example", dns) == Success(("8.8.8.8", "2606:4700::1111"))
    assert await find("GOOD.Example", dns) == Success(("8.8.8.8", "2606:4700::1111"))
    assert await find("mixed.example", dns) == Failure("the host has a private or reserved address.")
    assert await find("bad.example", dns) == Failure("the host has a private or reserved address.")


async def test_a_host_without_addresses() -> None:
    with pytest.raises(OSError, match="no address"):
        await find("none.example", names(none=()))


async def test_addresses_are_not_resolved() -> None:
    assert await find("8.8.8.8") == Success(("8.8.8.8",))
    assert await find("2606:4700:0::1111") == Success(("2606:4700::1111",))
    assert await find("127.0.0.1") == Failure("the host is a loopback address.")
    assert await find("::ffff:7f00:1") == Failure("the host is a loopback address.")


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0x7F.1",
        "127.1",
        "127.0.0.01",
        "0177.0.0.1",
        "8.8.2056",
        "1.2.3.4.5",
        "256.0.0.1",
        "example.1",
        "example.0x",
        "0",
    ],
)
async def test_addresses_in_unusual_spellings(host: str) -> None:
    assert await find(host) == Failure("the host is an address in an unusual spelling.")


@pytest.mark.parametrize(
    "host",
    [
        *[
            "127.0.0.1.",
            "localhost.",
            "example.com.",
            ".example.com",
            "a..b",
            "127%2e0.0.1",
            "a%00.com",
            "a/b",
            "a@b",
            "a\\b",
            "ä.de",
            ".",
        ],
        *("", "a b", "a" * 64 + ".de", "a." * 127 + "de"),
    ],
)
async def test_hosts_that_are_no_plain_names(host: str) -> None:
    assert await find(host) == Failure("the host is not a plain name such as example.com.")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "a.localhost"])
async def test_this_machine_by_its_name(host: str) -> None:
    assert await find(host) == Failure("the host is this machine.")


async def test_the_system_knows_this_machine() -> None:
    assert "127.0.0.1" in await resolve_by_system("127.0.0.1", 80)
    with pytest.raises(OSError):  # noqa: PT011 - the text is the system's own
        await resolve_by_system("does-not-exist.invalid", 80)


async def test_hosts_that_a_person_allows() -> None:
    dns = names(wiki=("10.0.0.7",), other=("10.0.0.8",))
    assert await find("wiki.example", dns, "Wiki.Example") == Success(("10.0.0.7",))
    assert isinstance(await find("other.example", dns, "wiki.example"), Failure)
    assert isinstance(
        await find("a.wiki.example", names(**{"a.wiki": ("10.0.0.7",)}), "wiki.example"), Failure
    )
    assert isinstance(await find("10.0.0.7", dns, "wiki.example"), Failure)
    assert await find("::1", nobody_asks, "[0:0::1]") == Success(("::1",))
    assert isinstance(await find("::ffff:127.0.0.1", nobody_asks, "127.0.0.1"), Failure)
    assert await find("localhost", names(localhost=("127.0.0.1",)), "localhost") == Success(("127.0.0.1",))


def test_one_spelling_for_each_host() -> None:
    assert normal_host(" [2001:DB8:0::1]") == "2001:db8::1"
    assert normal_host("Example.COM") == "example.com"
