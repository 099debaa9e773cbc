"""Channels over HTTP: what strangers send, what platforms send again, and answers that arrive once."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from attrs import frozen
from starlette.responses import Response

from reactive_agents import AgentError, Personas
from reactive_agents.adapters.channels import is_signed, signature_of
from reactive_agents.agent.persona import PersonaAgent
from reactive_agents.core.channels import ChannelConfig
from reactive_agents.core.persona_queue import WorkFilter, WorkItem
from reactive_agents.core.personas import DomainEvent, PersonaOutcome
from reactive_agents.effects import attempt
from reactive_agents.server.channels import BODY_BYTES, create_persona_app
from reactive_agents.testing import ScriptedLLM, forever, say
from reactive_agents.testing.core import START
from tests.support.platforms import AnswerReceiver, answer_receiver
from tests.support.servers import listening
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

SECRET, ACME = "a secret of sixteen", "another one of acme"
EVENTS, MESSAGES = WorkFilter(kinds=("event",)), WorkFilter(kinds=("delivery",))
MOMENT = str(int(START.timestamp()))
ANSWER = "The moon is 384400 km away."


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPPORT_SECRET", SECRET)
    monkeypatch.setenv("ACME_SECRET", ACME)


def signed(body: bytes, *, secret: str = SECRET, at: float | None = None) -> dict[str, str]:
    timestamp = str(int(time.time() if at is None else at))
    return {
        "x-request-timestamp": timestamp,
        "x-signature": signature_of(secret.encode(), timestamp, body),
        "content-type": "application/json",
    }


def event(content: str = "How far is the moon?", name: str = "e1", **fields: Any) -> bytes:
    return json.dumps({"id": name, "content": content, "context": "dealer-7", **fields}).encode()


@frozen
class Service:
    client: httpx.AsyncClient
    receiver: AnswerReceiver
    persona: PersonaAgent
    outcomes: list[PersonaOutcome]

    async def post(
        self, body: bytes, headers: Mapping[str, str] | None = None, path: str = "/channels/chat"
    ) -> httpx.Response:
        """Post a body, signed by default."""
        return await self.client.post(
            path, content=body, headers=signed(body) if headers is None else headers
        )

    async def message(self, condition: Callable[[WorkItem], object]) -> WorkItem:
        """Return the message of the persona once it fits."""
        while True:
            listed = await attempt(self.persona.persona.services.store.find_work(MESSAGES))
            for item in listed.unwrap():
                if condition(item):
                    return item
            await anyio.sleep(0.001)

    async def stored(self) -> int:
        """The number of events in the queue."""
        return len((await attempt(self.persona.persona.services.store.find_work(EVENTS))).unwrap())


@asynccontextmanager
async def service(
    folder: Path, llm: ScriptedLLM | None = None, *, drain_s: float = 30.0, **options: Any
) -> AsyncIterator[Service]:
    outcomes: list[PersonaOutcome] = []
    async with answer_receiver() as (receiver, url):
        channel = ChannelConfig("webhook", url, "SUPPORT_SECRET", tenants={"acme": "ACME_SECRET"})
        built = Personas.create("Mira").with_llm(llm or ScriptedLLM(forever(say(ANSWER))))
        built = built.with_memory(folder / "mira.db").with_domain("chat", channel=channel)
        settings: dict[str, Any] = {"reasoning": False, "delivery": {"backoff_s": 0.01}, **options}
        persona = built.with_options(**settings).build()
        app = create_persona_app(persona, on_outcome=outcomes.append, drain_s=drain_s)
        async with listening(app) as address, httpx.AsyncClient(base_url=address) as client:
            yield Service(client, receiver, persona, outcomes)


# --- what strangers send ------------------------------------------------------------------------------------

GOOD = event()


def forged() -> list[tuple[bytes, dict[str, str], str]]:
    old, behind = time.time() - 400, time.time() + 400
    return [
        (GOOD, {}, ""),
        (GOOD, signed(GOOD, secret="a guess of sixteen."), ""),
        (GOOD + b" ", signed(GOOD), ""),
        (GOOD, signed(GOOD, at=old), ""),
        (GOOD, signed(GOOD, at=behind), ""),
        (GOOD, signed(GOOD) | {"x-request-timestamp": str(int(time.time()) + 1)}, ""),
        (GOOD, signed(GOOD) | {"x-request-timestamp": "nan"}, ""),
        (GOOD, signed(GOOD) | {"x-request-timestamp": "9" * 5_000}, ""),
        (GOOD, signed(GOOD) | {"x-signature": "v0="}, ""),
        (GOOD, signed(GOOD) | {"x-signature": "v1" + signed(GOOD)["x-signature"][2:]}, ""),
        (GOOD, signed(GOOD) | {"x-signature": "v0=\xe9\xff".encode("latin-1").decode("latin-1")}, ""),
        (GOOD, signed(GOOD), "/acme"),
        (GOOD, signed(GOOD, secret=ACME), ""),
        (GOOD, signed(GOOD, secret="\0" * 32), "/nobody"),
    ]


async def test_a_request_without_the_right_signature_is_refused(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    async with service(tmp_path) as found:
        for number, (body, headers, path) in enumerate(forged()):
            with subtests.test(str(number)):
                raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
                answered = await found.client.post(f"/channels/chat{path}", content=body, headers=raw)
                assert (answered.status_code, answered.json()["code"]) == (401, "wrong-signature")
        assert await found.stored() == 0


def malformed() -> list[tuple[bytes, int]]:
    return [
        (b"", 400),
        (b"[]", 400),
        (b"\xff\xfe", 400),
        (b'{"id": "e", "content": NaN}', 400),
        (b'{"id": "e", "content": "x", "priority": 1e999}', 400),
        (b'{"id": "e", "content": "x", "details": ' + b'{"a":' * 70 + b"1" + b"}" * 71, 400),
        (b"[" * 100_000, 400),
        (b'{"id": ' + b"9" * 5_000 + b', "content": "x"}', 400),
        (event(name=""), 422),
        (event(name="x" * 201), 422),
        (event(name="a\x00b"), 422),
        (event(context="a\nb"), 422),
        (event("x" * 100_001), 422),
        (event(priority=2), 422),
        (event(tenant="acme"), 422),
        (b'{"id": "e", "content": ["x"]}', 422),
    ]


async def test_a_signed_body_that_is_no_event_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    async with service(tmp_path) as found:
        for number, (body, status) in enumerate(malformed()):
            with subtests.test(str(number)):
                assert (await found.post(body)).status_code == status
        assert (await found.post(GOOD)).status_code == 202
        await until(lambda: found.outcomes)


async def test_a_huge_body_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async with service(tmp_path) as found:
        url = found.client.base_url
        head = f"POST /channels/chat HTTP/1.1\r\nHost: x\r\nContent-Length: {BODY_BYTES + 1}\r\n\r\n"
        async with await anyio.connect_tcp(url.host, url.port or 0) as stream:
            await stream.send(head.encode())
            assert (await stream.receive()).startswith(b"HTTP/1.1 413 ")


async def test_half_of_a_surrogate_pair_is_replaced_before_it_is_stored(tmp_path: Path) -> None:
    async with service(tmp_path) as found:
        assert (await found.post(b'{"id": "e\\ud83d", "content": "Hello \\udc00"}')).status_code == 202
        await until(lambda: found.outcomes)
    assert found.outcomes[0].event_id == "e�"
    assert found.outcomes[0].status == "completed"


async def test_the_tenant_is_the_one_whose_secret_signed(tmp_path: Path) -> None:
    async with service(tmp_path) as found:
        body = event(content="How far is the sun?", context="dealer-7")
        assert (await found.post(GOOD)).status_code == 202
        assert (
            await found.post(body, signed(body, secret=ACME), "/channels/chat/acme")
        ).status_code == 202  # the same room and id, of another tenant
        await until(lambda: len(found.outcomes) == 2)
        rooms = {each.room for each in found.outcomes}
        assert {room.tenant for room in rooms if room is not None} == {"", "acme"}
        await until(lambda: len(found.receiver.shown) == 2)
        for headers, sent in found.receiver.requests:
            secret = ACME if json.loads(sent)["tenant"] == "acme" else SECRET
            moment, given = headers["x-request-timestamp"], headers["x-signature"]
            assert given == signature_of(secret.encode(), moment, sent)


EXAMPLE = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)


def test_the_signature_covers_the_time_and_ends_with_its_window() -> None:
    slack = b"8f742231b10e8888abcd99yyyzzz85a5"  # the example in Slack's documentation
    given = signature_of(slack, "1531420618", EXAMPLE)
    assert given == "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    secret, body = b"8f742231b10e8888", b"{}"
    given = signature_of(secret, MOMENT, body)
    assert is_signed(secret, MOMENT, given, body, START)
    assert not is_signed(secret, str(int(MOMENT) + 1), given, body, START)
    assert not is_signed(secret, "٣" * 10, signature_of(secret, "٣" * 10, body), body, START)


# --- idempotency, back-pressure -----------------------------------------------------------------------------


async def test_an_event_that_is_sent_again_is_answered_once(tmp_path: Path) -> None:
    async with service(tmp_path) as found:
        first, again = await found.post(GOOD), await found.post(GOOD)
        assert (first.status_code, first.json()) == (202, {"events": [{"id": "e1", "new": True}]})
        assert (again.status_code, again.json()) == (200, {"events": [{"id": "e1", "new": False}]})
        await until(lambda: found.receiver.shown)
        assert (await found.post(GOOD)).status_code == 200
    [(headers, body)] = found.receiver.requests
    sent = json.loads(body)
    assert (sent["text"], sent["event"], sent["context"], sent["tenant"]) == (ANSWER, "e1", "dealer-7", "")
    assert sent["key"] == headers["idempotency-key"]


async def test_a_full_inbox_says_when_to_try_again(tmp_path: Path) -> None:
    llm = ScriptedLLM(forever(say(ANSWER, delay=60)))
    async with service(tmp_path, llm, drain_s=0, inbox={"capacity": 1, "max_contexts": 1}) as found:
        assert (await found.post(event(name="e1"))).status_code == 202
        await until(lambda: llm.requests)  # under way, and waits no more
        assert (await found.post(event(name="e2"))).status_code == 202
        refused = await found.post(event(name="e3"))
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        assert (await found.post(event(name="e2"))).status_code == 200
        assert await found.stored() == 2


async def test_events_under_way_end_before_the_application_does(tmp_path: Path) -> None:
    llm = ScriptedLLM(forever(say(ANSWER, delay=0.05)))
    async with service(tmp_path, llm) as found:
        assert (await found.post(GOOD)).status_code == 202
        await until(lambda: llm.requests)
        assert not found.outcomes
    assert [each.status for each in found.outcomes] == ["completed"]


async def test_there_is_no_other_channel_and_the_store_is_checked(tmp_path: Path) -> None:
    async with service(tmp_path) as found:
        assert (await found.post(GOOD, path="/channels/code")).status_code == 404
        assert (await found.client.get("/channels/chat")).status_code == 405
        assert (await found.client.get("/healthz")).json() == {"status": "ok"}
        assert (await found.client.get("/readyz")).json() == {"status": "ready"}


# --- answers ------------------------------------------------------------------------------------------------


def busy(seconds: str) -> Response:
    return Response(status_code=429, headers={"retry-after": seconds})


async def test_an_answer_waits_as_long_as_the_receiver_says_and_has_one_key(tmp_path: Path) -> None:
    async with service(tmp_path, delivery={"tries": 1, "backoff_s": 0.01}) as found:
        found.receiver.failures += [busy("0"), busy("0"), busy("0")]
        assert (await found.post(GOOD)).status_code == 202
        await until(lambda: found.receiver.shown)
        keys = {headers["idempotency-key"] for headers, _ in found.receiver.requests}
        assert (len(found.receiver.requests), len(keys)) == (4, 1)


async def test_a_receiver_that_is_put_off_is_left_alone_until_then(tmp_path: Path) -> None:
    async with service(tmp_path) as found:
        found.receiver.failures.append(busy("100"))
        begun = datetime.now(UTC)
        assert (await found.post(GOOD)).status_code == 202
        await until(lambda: found.receiver.requests)
        item = await found.message(lambda item: item.due is not None)
        assert item.due is not None
        assert (item.due - begun).total_seconds() > 99
        assert (item.attempts, len(found.receiver.requests)) == (0, 1)


async def test_a_failure_is_tried_again_and_then_a_dead_letter_without_the_secret(tmp_path: Path) -> None:
    async with service(tmp_path, delivery={"tries": 2, "backoff_s": 0.01}) as found:
        found.receiver.failures += [
            Response(status_code=500),
            Response(status_code=302, headers={"location": "/elsewhere"}),
        ]
        assert (await found.post(GOOD)).status_code == 202
        item = await found.message(lambda item: not item.is_open)
        assert (item.status, len(found.receiver.requests)) == ("dead", 2)
        assert item.reason.endswith("the platform answered with status 302")


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"secret_env": "MISSING"}, "secret_env"),
        ({"secret_env": "SHORT"}, "secret_env"),
        ({"tenants": {"acme": "SUPPORT_SECRET"}}, "tenants"),
        ({"tenants": {"": "ACME_SECRET"}}, "tenants"),
        ({"url": "ftp://example.com"}, "url"),
        ({"url": ""}, "url"),
    ],
)
def test_a_channel_that_cannot_work_is_refused(
    changes: dict[str, Any], option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHORT", "short")
    given = {
        "kind": "webhook",
        "url": "https://example.com/answers",
        "secret_env": "SUPPORT_SECRET",
        **changes,
    }
    described = {"name": "mira", "memory": "mira.db", "domains": [{"name": "chat", "channel": given}]}
    with pytest.raises(AgentError, match=rf"domains\.chat\.channel\.{option}"):
        Personas.from_config(described).build()


def test_a_domain_has_a_channel_or_a_function(tmp_path: Path) -> None:
    async def deliver(event: DomainEvent, text: str) -> None:
        """Deliver nothing."""

    channel = ChannelConfig("webhook", "https://example.com", "SUPPORT_SECRET")
    described = Personas.create().with_domain("chat", deliver=deliver, channel=channel)
    with pytest.raises(AgentError, match=r"domains\.chat\.channel"):
        described.build()
    plain = Personas.create().with_llm(ScriptedLLM()).with_memory(tmp_path / "a.db").with_domain("chat")
    with pytest.raises(ValueError, match="No domain"):
        create_persona_app(plain.build())
