"""Channels over HTTP: what strangers send, what platforms send again, and answers that arrive once."""

from __future__ import annotations

import asyncio
import gc
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
from anyio.from_thread import start_blocking_portal
from attrs import evolve, frozen
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount

from reactive_agents import AgentError, Personas
from reactive_agents.adapters.channels import BODY_BYTES, WebhookChannel, is_signed, signature_of
from reactive_agents.agent.persona import PersonaAgent
from reactive_agents.core.channels import ChannelConfig
from reactive_agents.core.ids import PersonaId
from reactive_agents.core.persona_queue import WorkFilter, WorkItem
from reactive_agents.core.personas import DomainEvent, EventSchedule, PersonaOutcome
from reactive_agents.effects import attempt
from reactive_agents.server.channels import create_persona_app
from reactive_agents.server.process import bound_socket
from reactive_agents.testing import FakeClock, ScriptedLLM, forever, say
from reactive_agents.testing.core import START
from tests.support.personas import an_event
from tests.support.platforms import answer_receiver, homeserver, slack_server
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
    monkeypatch.setenv("SLACK_TOKEN", TOKEN)


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
    receiver: Any
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
    folder: Path,
    llm: ScriptedLLM | None = None,
    *,
    platform: Any = answer_receiver,
    channel: Mapping[str, Any] | None = None,
    drain_s: float = 30.0,
    **options: Any,
) -> AsyncIterator[Service]:
    """A persona with a channel, and the platform that its answers go to."""
    outcomes: list[PersonaOutcome] = []
    other = platform()
    with bound_socket("127.0.0.1", 0) as bound:
        url = f"http://127.0.0.1:{bound.getsockname()[1]}{other.path}"
        config = {"kind": "webhook", "secret_env": "SUPPORT_SECRET", "tenants": {"acme": "ACME_SECRET"}}
        domain = {"name": "chat", "channel": {"url": url, **(channel or config)}}
        settings = {"reasoning": False, "delivery": {"backoff_s": 0.01}, **options}
        described = {"name": "Mira", "memory": str(folder / "mira.db"), "domains": [domain], **settings}
        built = Personas.from_config(described).with_llm(llm or ScriptedLLM(forever(say(ANSWER))))
        persona = built.build()
        app = create_persona_app(persona, on_outcome=outcomes.append, drain_s=drain_s)
        both = Starlette(routes=[*other.routes, Mount("/", app)], lifespan=app.router.lifespan_context)
        serving = listening(both, on=bound)
        async with serving as address, httpx.AsyncClient(base_url=address) as client:
            yield Service(client, other.server, persona, outcomes)


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
        (event(" \n"), 422),
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


def bytes_in(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.iterdir())


async def test_the_secrets_of_a_channel_reach_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = "meadow-of-sixteen", "brook-of-seventeen"
    monkeypatch.setenv("HOOK", first)  # names that say nothing
    monkeypatch.setenv("HOOK_OF_ACME", second)
    channel = {"kind": "webhook", "secret_env": "HOOK", "tenants": {"acme": "HOOK_OF_ACME"}}
    llm = ScriptedLLM(forever(say(f"They are {first} and {second}.")))
    async with service(tmp_path, llm, channel=channel) as found:
        assert (await found.post(GOOD, signed(GOOD, secret=first))).status_code == 202
        await until(lambda: found.outcomes)
    stored = bytes_in(tmp_path)
    assert b"They are [redacted:known] and [redacted:known]." in stored
    assert first.encode() not in stored
    assert second.encode() not in stored


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


async def test_a_homeserver_that_says_only_in_its_document_when_to_send_is_left_alone(tmp_path: Path) -> None:
    async with matrix(tmp_path) as found:
        limit = {"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 100_000}
        found.receiver.failures.append(Response(json.dumps(limit), 429, media_type="application/json"))
        begun = datetime.now(UTC)
        await transaction(found, said())
        item = await found.message(lambda item: item.due is not None)
        assert item.due is not None
        assert (item.due - begun).total_seconds() > 99
        assert item.attempts == 0


async def test_an_answer_that_is_not_taken_is_in_the_log_with_its_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with matrix(tmp_path, delivery={"tries": 1, "backoff_s": 0.01}) as found:
        found.receiver.failures.append(Response('{"errcode": "M_FORBIDDEN"}', 403))
        await transaction(found, said())
        await found.message(lambda item: item.status == "dead")
        await until(lambda: caplog.messages)
    [told] = caplog.messages
    assert told.startswith("The delivery 2 is a dead letter: ")
    assert told.endswith("the platform answered with status 403 M_FORBIDDEN")


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


async def test_an_impossible_date_of_a_receiver_hides_no_status(tmp_path: Path) -> None:
    async with service(tmp_path, delivery={"tries": 1}) as found:
        found.receiver.failures.append(busy("Mon, 01 Jan 99999999999999999999 00:00:00 GMT"))
        assert (await found.post(GOOD)).status_code == 202
        item = await found.message(lambda item: not item.is_open)
        assert item.reason.endswith("the platform answered with status 429")


async def test_an_answer_to_a_tenant_that_was_taken_out_says_so() -> None:
    channel = WebhookChannel("https://example.com", {"acme": ACME.encode()}, tenant="acme", clock=FakeClock())
    with pytest.raises(RuntimeError, match="the channel has no tenant 'gone'"):
        await channel.send(an_event(tenant="gone"), "So.", "key", again=False)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the connection of a loop that was not closed
def test_answers_of_several_event_loops_arrive_once_each() -> None:
    platform = answer_receiver()
    with start_blocking_portal() as portal:
        server = listening(Starlette(routes=list(platform.routes)))
        with portal.wrap_async_context_manager(server) as url:
            channel = WebhookChannel(url + platform.path, {"": b"secret"}, tenant="", clock=FakeClock())
            for number in range(3):
                asyncio.run(channel.send(an_event(), "So.", f"key-{number}", again=False))
    assert len(platform.server.requests) == 3
    gc.collect()


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"secret_env": "MISSING"}, "secret_env"),
        ({"secret_env": "SHORT"}, "secret_env"),
        ({"tenants": {"acme": "SUPPORT_SECRET"}}, "tenants"),
        ({"tenants": {"": "ACME_SECRET"}}, "tenants"),
        ({"url": "ftp://example.com"}, "url"),
        ({"url": ""}, "url"),
        ({"kind": "slack", "token_env": "MISSING"}, "token_env"),
        ({"kind": "slack", "tenants": {"T1": "MISSING"}}, "tenants"),
        ({"kind": "matrix", "token_env": "SLACK_TOKEN", "user": "mira"}, "user"),
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


@pytest.mark.parametrize(("value", "has"), [(None, "it is not set"), ("short", "it has 5")])
def test_a_secret_that_is_not_set_is_not_told_as_a_short_one(
    value: str | None, has: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is not None:
        monkeypatch.setenv("HOOK", value)
    given = {"kind": "webhook", "url": "https://example.com/answers", "secret_env": "HOOK"}
    described = {"name": "mira", "memory": "mira.db", "domains": [{"name": "chat", "channel": given}]}
    with pytest.raises(AgentError, match=rf"whose value has 16 characters or more \({has}\)"):
        Personas.from_config(described).build()


def test_a_schedule_of_no_tenant_of_the_channel_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SUPPORT_SECRET", "a secret of sixteen")
    channel = ChannelConfig("webhook", "https://example.com", "SUPPORT_SECRET", tenant="acme")
    described = Personas.create().with_llm(ScriptedLLM()).with_memory(tmp_path / "a.db")
    morning = EventSchedule("morning", "0 8 * * *", "Post it.")
    with pytest.raises(AgentError, match=r"schedules\.morning\.tenant: got '', expected .*'acme'"):
        described.with_domain("chat", channel=channel, schedules=(morning,)).build()
    described.with_domain("chat", channel=channel, schedules=(evolve(morning, tenant="acme"),)).build()


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


async def opinions(found: Service, wanted: list[tuple[str, bool]] | None = None) -> list[tuple[str, bool]]:
    """The reactions that are stored with the plan, once there are any, or once they are these."""
    while True:
        listed = await attempt(found.persona.persona.services.store.list_plans(PersonaId("Mira")))
        for plan in listed.unwrap():
            given = [(each.user, each.good) for each in plan.feedback]
            if given and wanted in (None, given):
                return given
        await anyio.sleep(0.001)


async def test_a_reaction_is_taken_from_the_tenant_that_has_the_answer(tmp_path: Path) -> None:
    async with service(tmp_path) as found:
        assert (await found.post(GOOD)).status_code == 202
        await found.message(lambda item: item.message_id == "m1")
        body = json.dumps({"message": "m1", "good": False, "user": "bob", "id": "r1"}).encode()
        other = await found.post(body, signed(body, secret=ACME), "/channels/chat/acme")
        assert (other.status_code, other.json()) == (200, {"events": []})
        assert (await found.post(body)).status_code == 202
        assert (await found.post(body)).status_code == 200
        assert await opinions(found) == [("bob", False)]
        for wrong in (
            {"message": "m1"},
            {"message": "m1", "good": 1, "user": "b"},
            {"message": 7, "good": True},
        ):
            assert (await found.post(json.dumps(wrong).encode())).status_code == 422


async def test_the_latest_of_many_opinions_counts_and_one_that_is_sent_again_is_known(tmp_path: Path) -> None:
    def liked(good: bool, name: str = "") -> bytes:
        return json.dumps({"message": "m1", "good": good, "user": "bob", "id": name}).encode()

    async with service(tmp_path) as found:
        assert (await found.post(GOOD)).status_code == 202
        await found.message(lambda item: item.message_id == "m1")
        for good, name in ((True, "r1"), (False, "r2"), (True, "r3"), (False, "r4"), (True, "r5")):
            assert (await found.post(liked(good, name))).status_code == 202
        assert (await found.post(liked(False, "r4"))).status_code == 200
        assert await opinions(found, [("bob", True)])
        headers = signed(liked(False))
        answers = [(await found.post(liked(False), headers)).status_code for _ in range(2)]
        assert answers == [202, 200], "without an id it is known by the time of its signature"
        assert await opinions(found, [("bob", False)])


# --- Slack --------------------------------------------------------------------------------------------------

TOKEN = "xoxb-a-token-of-sixteen"
SLACK = {"kind": "slack", "secret_env": "SUPPORT_SECRET", "token_env": "SLACK_TOKEN"}


def slack(folder: Path, llm: ScriptedLLM | None = None, **options: Any) -> Any:
    return service(
        folder,
        llm,
        platform=lambda: slack_server(TOKEN),
        channel={**SLACK, **options.pop("channel", {})},
        **options,
    )


def from_slack(**fields: Any) -> bytes:
    """A message in a channel, as Slack sends it."""
    said = {"type": "message", "channel": "C1", "channel_type": "channel", "user": "U7"}
    given = {**said, "text": "How far is the moon?", "ts": "1700000000.000100", **fields}
    envelope = {"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event_time": 1_700_000_000}
    bots = [{"team_id": "T1", "user_id": "UMIRA", "is_bot": True}]
    return json.dumps({**envelope, "event": given, "authorizations": bots}).encode()


async def slack_post(found: Service, body: bytes, **headers: str) -> httpx.Response:
    given = signed(body)
    sent = {
        "x-slack-request-timestamp": given["x-request-timestamp"],
        "x-slack-signature": given["x-signature"],
    }
    return await found.client.post("/channels/chat", content=body, headers={**sent, **headers})


async def test_slack_is_answered_in_the_thread_of_the_message_once(tmp_path: Path) -> None:
    async with slack(tmp_path, ScriptedLLM(forever(say("<!channel> 1 < 2 & so on")))) as found:
        challenge = json.dumps({"type": "url_verification", "challenge": "abc"}).encode()
        assert (await slack_post(found, challenge)).json() == {"challenge": "abc"}
        text = "<@UMIRA> see <https://a.example|this> &lt;3"
        assert (await slack_post(found, from_slack(text=text))).status_code == 200
        retry = {"x-slack-retry-num": "1", "x-slack-retry-reason": "http_timeout"}
        assert (await slack_post(found, from_slack(text=text), **retry)).status_code == 200
        mention = from_slack(type="app_mention", text=text)  # Slack sends both for one message
        assert (await slack_post(found, mention)).status_code == 200
        await until(lambda: found.outcomes and found.receiver.messages)
        [message] = found.receiver.messages
        assert (message["channel"], message["thread_ts"]) == ("C1", "1700000000.000100")
        assert message["text"] == "&lt;!channel&gt; 1 &lt; 2 &amp; so on"
    [outcome] = found.outcomes
    assert outcome.room is not None
    assert (outcome.room.tenant, outcome.room.context_id) == ("T1", "C1/1700000000.000100")
    assert outcome.plan is not None
    assert outcome.plan.event.content == "@Mira see this (https://a.example) <3"
    assert outcome.plan.event.details == {"direct": False, "mentioned": True, "thread": False}


async def test_a_mention_of_another_user_of_slack_is_not_one_of_the_persona(tmp_path: Path) -> None:
    others = from_slack(text="<@UMIRA2> hello", ts="1700000000.000200")
    async with slack(tmp_path, engagement={"mentions_only": True}) as found:
        for body in (others, from_slack(text="<@UMIRA> hello"), from_slack(text="<@UMIRA|m> hi", ts="2.1")):
            assert (await slack_post(found, body)).status_code == 200
        await until(lambda: len(found.outcomes) == 3)
        declined = [each for each in found.outcomes if each.status == "declined"]
        assert [each.event_id for each in declined] == ["1700000000.000200"]


async def test_slack_sends_much_that_is_no_message_of_a_person(tmp_path: Path) -> None:
    others = [
        from_slack(bot_id="B1"),
        from_slack(user="UMIRA"),
        from_slack(subtype="message_changed"),
        from_slack(subtype=["message_changed"]),
        from_slack(type="reaction_removed"),
        from_slack(text="  "),
        from_slack(text=7),
        from_slack(channel="C1/../x"),
        from_slack(ts="now"),
        from_slack(thread_ts="1700000000.000100/x"),
        from_slack(user=None),
        json.dumps({"type": "event_callback", "team_id": "T1", "event": []}).encode(),
        json.dumps({"type": "app_rate_limited"}).encode(),
        from_slack().replace(b"T1", b"T2"),
    ]
    workspaces = {"tenants": {"T1": "SLACK_TOKEN"}}
    async with slack(tmp_path, channel=workspaces) as found:
        for body in others:
            assert ((await slack_post(found, body)).status_code, body) == (200, body)
        assert await found.stored() == 0
        body = from_slack()
        assert (await found.post(body)).status_code == 401  # the headers of another channel
        forged = {"x-slack-signature": signature_of(ACME.encode(), "1", body)}
        assert (await slack_post(found, body, **forged)).status_code == 401
        refused = await slack_post(found, b"payload=%7B%7D")
        assert (refused.status_code, refused.headers["x-slack-no-retry"]) == (400, "1")


async def test_a_direct_conversation_of_slack_is_one_room_and_a_thread_another(tmp_path: Path) -> None:
    async with slack(tmp_path) as found:
        direct = {"channel": "D1", "channel_type": "im"}
        for number, more in enumerate(({}, {}, {"thread_ts": "1700000000.000100"})):
            body = from_slack(ts=f"1700000000.00010{number}", **direct, **more)
            assert (await slack_post(found, body)).status_code == 200
        await until(lambda: len(found.receiver.messages) == 3)
        threads = [each.get("thread_ts") for each in found.receiver.messages]
        assert sorted(threads, key=str) == ["1700000000.000100", None, None]


async def test_slack_that_took_a_message_and_did_not_say_so_gets_it_once(tmp_path: Path) -> None:
    async with slack(tmp_path) as found:
        found.receiver.lossy = True
        found.receiver.messages += [{"channel": "C1", "thread_ts": "1700000000.000100", "ts": "1"}] * 3
        found.receiver.failures.append(Response(status_code=500))
        assert (await slack_post(found, from_slack())).status_code == 200
        item = await found.message(lambda item: not item.is_open)
        assert (item.status, item.message_id) == ("done", "C1/1700000000.000003")
        assert len(found.receiver.messages) == 4
        assert found.receiver.asked.count("chat.postMessage") == 1


async def test_slack_says_when_to_send_and_why_it_does_not(tmp_path: Path) -> None:
    async with slack(tmp_path, delivery={"tries": 1, "backoff_s": 0.01}) as found:
        found.receiver.failures.append(busy("0"))
        assert (await slack_post(found, from_slack())).status_code == 200
        assert (await slack_post(found, from_slack(channel="CARCHIVED"))).status_code == 200
        dead = await found.message(lambda item: item.status == "dead")
        assert dead.reason.endswith("Slack refused it: is_archived")
        await until(lambda: found.receiver.messages)


async def test_reactions_of_slack_are_opinions_of_people(tmp_path: Path) -> None:
    def reaction(name: str, user: str = "U8", channel: str = "C1", at: str = "1") -> bytes:
        item = {"type": "message", "channel": channel, "ts": "1700000000.000000"}
        return from_slack(type="reaction_added", user=user, reaction=name, item=item, event_ts=f"{at}.0")

    async with slack(tmp_path) as found:
        assert (await slack_post(found, from_slack())).status_code == 200
        await found.message(lambda item: item.message_id == "C1/1700000000.000000")
        for body in (reaction("eyes"), reaction("-1", "UMIRA"), reaction("-1", channel="C2")):
            assert (await slack_post(found, body)).status_code == 200
        assert await found.stored() == 1
        assert (await slack_post(found, reaction("thumbsup::skin-tone-2"))).status_code == 200
        assert await opinions(found) == [("U8", True)]
        stored = await found.stored()
        for name, at in (("-1", "2"), ("+1", "3"), ("-1", "4"), ("+1", "3")):
            assert (await slack_post(found, reaction(name, at=at))).status_code == 200
        assert await found.stored() == stored + 3
        assert await opinions(found, [("U8", False)])


# --- Matrix -------------------------------------------------------------------------------------------------

MATRIX = {
    "kind": "matrix",
    "secret_env": "SUPPORT_SECRET",
    "token_env": "SLACK_TOKEN",
    "user": "@mira:example.org",
    "tenant": "hq",
    "inviters": ["@*:example.org"],
}
ROOM = "!room:example.org"


def matrix(folder: Path, llm: ScriptedLLM | None = None, **options: Any) -> Any:
    return service(folder, llm, platform=lambda: homeserver(TOKEN), channel=MATRIX, **options)


def said(body: object = "How far is the moon?", name: str = "$e1", **fields: Any) -> dict[str, Any]:
    """A message in a room, as a homeserver sends it."""
    content = {"msgtype": "m.text", "body": body, **fields.pop("content", {})}
    event = {"type": "m.room.message", "room_id": ROOM, "sender": "@bob:example.org", "event_id": name}
    return {**event, "origin_server_ts": 1, "content": content, **fields}


async def transaction(found: Service, *events: Any, secret: str = SECRET, number: int = 1) -> httpx.Response:
    path = f"/channels/chat/_matrix/app/v1/transactions/{number}"
    headers = {"authorization": f"Bearer {secret}"}
    return await found.client.put(path, content=json.dumps({"events": events}), headers=headers)


async def test_matrix_is_answered_in_its_room_or_thread_once(tmp_path: Path) -> None:
    relation = {"m.relates_to": {"rel_type": "m.thread", "event_id": "$root/+"}}
    mention = {"m.mentions": {"user_ids": ["@mira:example.org"]}}
    both = said(content=mention), said(name="$e2", content=relation)
    async with matrix(tmp_path) as found:
        found.receiver.failures.append(Response(status_code=502))  # after the message was taken
        assert (await transaction(found, *both)).json() == {}
        assert (await transaction(found, *both)).status_code == 200
        await until(lambda: len(found.receiver.shown) == 2 and len(found.outcomes) == 2)
        await found.message(lambda item: item.message_id == "$sent0")
        await found.message(lambda item: item.message_id == "$sent1")
        plain, threaded = sorted(found.receiver.shown.values(), key=len)
        assert plain == {"msgtype": "m.notice", "body": ANSWER, "m.mentions": {}}
        assert threaded["m.relates_to"] == {"rel_type": "m.thread", "event_id": "$root/+"}
        assert {room for room, _ in found.receiver.shown} == {ROOM}
    events = [each.plan.event for each in found.outcomes if each.plan is not None]
    assert {each.tenant for each in events} == {"hq"}
    assert {each.context_id for each in events} == {ROOM, f"{ROOM}/$root/+"}
    assert [each.details["mentioned"] for each in events if each.id == "$e1"] == [True]


async def test_what_is_no_message_of_a_person_does_not_hold_up_a_transaction(tmp_path: Path) -> None:
    others: list[Any] = [
        7,
        {"type": "m.room.message"},
        said(sender="@mira:example.org"),
        said(content={"msgtype": "m.notice"}),
        said(content={"m.relates_to": {"rel_type": "m.replace", "event_id": "$e0"}}),
        said(["x"]),
        said("  "),
        said(sender="bob"),
        said(room_id="!a/$b:evil.example"),
        said(name="e1"),
        said(type="m.room.encrypted"),
        said(sender="@bob\x9b:evil.example"),
    ]
    async with matrix(tmp_path) as found:
        assert (await transaction(found, *others, said("Half \ud800", name="$e9"))).status_code == 200
        await until(lambda: found.outcomes)
        assert await found.stored() == 1
        unreadable = [
            b'{"a": ' * 70 + b"1" + b"}" * 70,
            b'{"a": [' * 10_000 + b'"]"' + b"]}" * 10_000,
            b'{"a": NaN, "b": 1e999}',
            b'{"a": ' + b"9" * 5_000 + b"}",
            b'{"a": "\xff"}',
        ]
        readable = json.dumps(said(name="$e7")).encode()
        body = b'{"events": [' + b", ".join([*unreadable, readable]) + b"]}"
        sent = {"content": body, "headers": {"authorization": f"Bearer {SECRET}"}}
        path = "/channels/chat/_matrix/app/v1/transactions/7"
        assert (await found.client.put(path, **sent)).status_code == 200  # type: ignore[arg-type]
        assert await found.stored() == 2
        large = [said("x" * 50_000, name=f"$large{number}", sender="bob") for number in range(25)]
        assert (await transaction(found, *large, number=8)).status_code == 200
        for secret in ("x", "a guess of sixteen.", ACME):
            assert (await transaction(found, said(name="$e8"), secret=secret)).status_code == 401
        headers = {"authorization": f"Bearer {SECRET}"}
        path = "/channels/chat/_matrix/app/v1"
        assert (await found.client.put(f"{path}/transactions/2", headers=headers)).status_code == 400
        assert (await found.client.get(f"{path}/users/@x:y", headers=headers)).status_code == 404
        assert (await found.client.post(f"{path}/ping", headers=headers)).json() == {}


async def test_a_transaction_is_taken_as_far_as_there_is_place_and_then_again(tmp_path: Path) -> None:
    llm = ScriptedLLM(forever(say(ANSWER, delay=60)))
    async with matrix(tmp_path, llm, drain_s=0, inbox={"capacity": 1, "max_contexts": 1}) as found:
        assert (await transaction(found, said(name="$e1"))).status_code == 200
        await until(lambda: llm.requests)
        refused = await transaction(found, said(name="$e2"), said(name="$e3"), number=2)
        assert (refused.status_code, await found.stored()) == (429, 2)


async def test_invitations_of_admitted_users_are_accepted(tmp_path: Path) -> None:
    def invitation(sender: str, room: str) -> dict[str, Any]:
        member = {"type": "m.room.member", "state_key": "@mira:example.org", "sender": sender}
        return {**member, "room_id": room, "content": {"membership": "invite"}}

    bob, eve = invitation("@bob:example.org", "!a:x"), invitation("@eve:evil.example", "!b:x")
    async with matrix(tmp_path) as found:
        found.receiver.failures.append(busy("1"))
        assert (await transaction(found, bob, eve)).status_code == 503
        found.receiver.failures.append(Response(status_code=403))  # it was taken back
        assert (await transaction(found, bob, eve)).status_code == 200
        assert (await transaction(found, bob, eve)).status_code == 200
        assert found.receiver.joined == ["!a:x"]


async def test_it_is_shown_that_an_answer_is_being_made(tmp_path: Path) -> None:
    llm = ScriptedLLM(forever(say(ANSWER, delay=60)))
    async with matrix(tmp_path, llm, drain_s=0) as found:
        assert (await transaction(found, said())).status_code == 200
        await until(lambda: found.receiver.typing)
        assert found.receiver.typing == [ROOM]
    async with slack(tmp_path, llm, drain_s=0) as found:
        assert (await slack_post(found, from_slack())).status_code == 200
        await until(lambda: found.receiver.statuses)
        [status] = found.receiver.statuses
        assert (status["channel_id"], status["thread_ts"]) == ("C1", "1700000000.000100")


async def test_reactions_of_matrix_are_opinions_of_people(tmp_path: Path) -> None:
    def reaction(key: object, name: str) -> dict[str, Any]:
        relation = {"rel_type": "m.annotation", "event_id": "$sent0", "key": key}
        return said(name=name, type="m.reaction", content={"m.relates_to": relation})

    async with matrix(tmp_path) as found:
        assert (await transaction(found, said())).status_code == 200
        await found.message(lambda item: item.message_id == "$sent0")
        sent = [reaction("👀", "$r1"), reaction(7, "$r2"), reaction("", "$r3"), reaction("👍🏽", "$r4")]
        assert (await transaction(found, *sent, number=2)).status_code == 200
        assert await opinions(found) == [("@bob:example.org", True)]
        assert await found.stored() == 2
