"""The ledger of a run's tool calls, by which policies decide.

Policies see one state, not its history. The ledger sums up the history that they need as it happens: how
often each tool was called, which results are stored and still valid, what was new in the last turn. Calls are
counted here and nowhere else.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from attrs import field, frozen

from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.persistent import (
    NO_ENTRIES,
    NO_MEMBERS,
    PersistentMap,
    PersistentSet,
    as_map,
    as_set,
)
from reactive_agents.core.texts import words_of
from reactive_agents.core.tools import TRIED, ToolDefinition, ToolResult
from reactive_agents.core.values import Value, replaced

EMPTY_REPLY = "empty_reply"
"""The policy whose guidance is counted from zero after each call."""


@frozen(slots=False, eq=False, repr=False)
class CallCounts(Value):
    """Counts of calls of each tool, for limits and requirements.

    Attributes:
        attempts: how often each tool was run, with any result.
        succeeded: how often each tool succeeded.
        failed_in_a_row: how often each tool has failed since its last success.
        effects: the key of the result of each call that succeeded and changed something, by its fingerprint.
        declined: how often a call of each tool was declined, or is in doubt.
    """

    attempts: PersistentMap[str, int] = field(default=NO_ENTRIES, converter=as_map)
    succeeded: PersistentMap[str, int] = field(default=NO_ENTRIES, converter=as_map)
    failed_in_a_row: PersistentMap[str, int] = field(default=NO_ENTRIES, converter=as_map)
    effects: PersistentMap[str, str] = field(default=NO_ENTRIES, converter=as_map)
    declined: PersistentMap[str, int] = field(default=NO_ENTRIES, converter=as_map)

    def __bool__(self) -> bool:
        return bool(self.attempts or self.succeeded or self.failed_in_a_row)

    def with_calls(
        self,
        calls: Iterable[tuple[str, bool]],
        effects: Mapping[str, str] | None = None,
        declined: Iterable[str] = (),
    ) -> CallCounts:
        """Return the counts after calls, each the name of its tool and whether it worked.

        Args:
            declined: the tool of each of the calls that was declined, or is in doubt.
        """
        attempts, succeeded, failed = self.attempts, self.succeeded, self.failed_in_a_row
        for name, worked in calls:
            attempts = attempts | {name: attempts.get(name, 0) + 1}
            if not worked:
                failed = failed | {name: failed.get(name, 0) + 1}
                continue
            succeeded = succeeded | {name: succeeded.get(name, 0) + 1}
            if name in failed:
                failed = PersistentMap({each: times for each, times in failed.items() if each != name})
        changed = self.effects | effects if effects else self.effects
        said_no = as_map(_sum(self.declined, Counter(declined))) if declined else self.declined
        return replaced(
            self,
            attempts=attempts,
            succeeded=succeeded,
            failed_in_a_row=failed,
            effects=changed,
            declined=said_no,
        )

    def then(self, later: CallCounts) -> CallCounts:
        """Return these counts and, after them, those of later calls."""
        if not self or not later:
            return self or later
        failed = {name: times for name, times in self.failed_in_a_row.items() if name not in later.succeeded}
        return CallCounts(
            _sum(self.attempts, later.attempts),
            _sum(self.succeeded, later.succeeded),
            _sum(failed, later.failed_in_a_row),
            {**self.effects, **later.effects},
            _sum(self.declined, later.declined),
        )

    def since(self, earlier: CallCounts) -> CallCounts:
        """Return the counts of the calls that were made after earlier ones."""
        succeeded = _difference(self.succeeded, earlier.succeeded)
        before = {name: n for name, n in earlier.failed_in_a_row.items() if name not in succeeded}
        return CallCounts(
            _difference(self.attempts, earlier.attempts),
            succeeded,
            _difference(self.failed_in_a_row, before),
            self.effects,
            _difference(self.declined, earlier.declined),
        )

    def at_least(self, known: CallCounts) -> CallCounts:
        """Return the counts, each raised to a count that is known from elsewhere."""
        return CallCounts(
            dict(Counter(self.attempts) | Counter(known.attempts)),
            dict(Counter(self.succeeded) | Counter(known.succeeded)),
            self.failed_in_a_row,
            {**known.effects, **self.effects},
            self.declined,
        )


NO_CALLS = replaced(CallCounts())


@frozen(slots=False, eq=False, repr=False)
class CallLedger(Value):
    """The ledger of the tool calls of a kernel run.

    Attributes:
        earlier: calls before it in the same run, which count as well.
        answers: the key of each call's result, as long as the result is valid.
        outcomes: a digest of each call's last outcome.
        words: the distinct words of all results, except those of delivering tools.
        gathered: number of distinct words before the last turn's results.
        novelty: 0 to 1, the share of new words in the last turn's results; ``None`` without results.
        idle_turns: successive turns without anything new.
        repeated: whether the last turn repeated a call with a stored result.
        said: digests of the answers that were rejected since a call last returned something new.
        told: number of turns in which each policy gave guidance.
        call_ids: the ids of all calls of the model.
        questioned: fingerprints of calls that were not run because they would have taken effect too early or
            a second time; they are run when the model makes them again.
    """

    calls: CallCounts = NO_CALLS
    earlier: CallCounts = NO_CALLS
    answers: PersistentMap[str, str] = field(default=NO_ENTRIES, converter=as_map)
    outcomes: PersistentMap[str, str] = field(default=NO_ENTRIES, converter=as_map)
    words: PersistentSet[str] = field(default=NO_MEMBERS, converter=as_set)
    gathered: int = 0
    novelty: float | None = None
    idle_turns: int = 0
    repeated: bool = False
    said: frozenset[str] = frozenset()
    told: Mapping[str, int] = field(default=NO_ENTRIES, converter=as_map)
    call_ids: PersistentSet[CallId] = field(default=NO_MEMBERS, converter=as_set)
    questioned: frozenset[str] = frozenset()

    @property
    def counted(self) -> CallCounts:
        """All calls that count for limits and requirements."""
        return self.calls if self.earlier is NO_CALLS else self.earlier.then(self.calls)


def has_side_effects(definition: ToolDefinition | None) -> bool:
    """Return whether other tools may answer differently after this one has run."""
    return definition is None or definition.output or definition.risk != "low"


def takes_effect_again(definition: ToolDefinition) -> bool:
    """Return whether a call that is run a second time has its effect a second time."""
    changes = has_side_effects(definition) or definition.requires_approval
    return changes and not definition.idempotent and not definition.volatile


@frozen(eq=False, repr=False)
class LedgerEntry(Value):
    """The ledger's entry of one call.

    Attributes:
        text: its result, as shown to the model.
        key: the key of its result; ``None`` when it failed.
        counts: whether the task requires more calls of its tool, so that a repeated success is useful.
    """

    call: ToolCall
    definition: ToolDefinition | None
    result: ToolResult
    text: str
    key: str | None
    counts: bool = False


def enter_turn(ledger: CallLedger, entries: Sequence[LedgerEntry]) -> CallLedger:
    """Return the ledger after the calls of a turn."""
    outcomes: dict[str, str] = {}
    answers: dict[str, str] = {}
    executed: list[tuple[str, bool]] = []
    declined: list[str] = []
    effects: dict[str, str] = {}
    questioned = ledger.questioned
    found: set[str] = set()
    idle, settled, repeated = True, True, False
    for entry in entries:
        if entry.result.origin not in TRIED:
            is_asked_about = entry.call.written or has_side_effects(entry.definition)
            if entry.result.origin == "refused" and is_asked_about:
                questioned |= {entry.call.fingerprint}
            repeated = repeated or entry.result.origin == "stored"
            continue
        asked, outcome = entry.call.fingerprint, digest(entry.text)
        questioned -= {asked}
        executed.append((entry.call.name, not entry.result.error))
        if entry.result.origin in ("declined", "in_doubt"):
            declined.append(entry.call.name)
        volatile = entry.definition is not None and entry.definition.volatile
        before = outcomes.get(asked) or ledger.outcomes.get(asked)
        idle = idle and not volatile and before == outcome
        if before != outcome:
            outcomes[asked] = outcome
        settled = settled and not has_side_effects(entry.definition)
        if entry.result.error:
            continue
        idle = idle and not entry.counts
        if entry.definition is not None and takes_effect_again(entry.definition):
            effects[asked] = entry.key or ""
        if entry.key is not None and not volatile:
            answers[asked] = entry.key
        if entry.definition is None or not entry.definition.output:
            found.update(words_of(entry.text))
    words, told = ledger.words | found, ledger.told
    if EMPTY_REPLY in told:
        told = PersistentMap({name: times for name, times in told.items() if name != EMPTY_REPLY})
    return replaced(
        ledger,
        calls=ledger.calls.with_calls(executed, effects, declined) if executed else ledger.calls,
        # the calls of a turn run side by side: what one of them changed, any other may have seen before
        answers=ledger.answers | answers if settled else NO_ENTRIES,
        outcomes=ledger.outcomes | outcomes,
        words=words,
        told=told,
        gathered=len(ledger.words),
        novelty=(len(words) - len(ledger.words)) / len(found) if found else None,
        idle_turns=ledger.idle_turns + 1 if idle else 0,
        repeated=repeated,
        said=ledger.said if idle else frozenset(),
        questioned=questioned - effects.keys(),
    )


def enter_calls(ledger: CallLedger, calls: Iterable[ToolCall]) -> CallLedger:
    """Return the ledger after the model made calls, which are still to be run."""
    return replaced(ledger, call_ids=ledger.call_ids | [call.id for call in calls])


def enter_answer(ledger: CallLedger, text: str) -> CallLedger:
    """Return the ledger after a proposed answer; one rejected before is nothing new."""
    words = words_of(text)
    said = {digest(" ".join(sorted(words)))} if words else set()
    again = bool(said & ledger.said)
    return replaced(
        ledger,
        said=ledger.said | said,
        idle_turns=ledger.idle_turns + 1 if again else 0,
        novelty=None,
        repeated=False,
    )


def enter_guidance(ledger: CallLedger, policy: str) -> CallLedger:
    """Return the ledger after a policy gave guidance for the next turn."""
    return replaced(ledger, told=PersistentMap({**ledger.told, policy: ledger.told.get(policy, 0) + 1}))


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def _difference(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    return {name: count - other.get(name, 0) for name, count in one.items() if count > other.get(name, 0)}


def digest(text: str) -> str:
    """Return a digest of a text in 16 characters, equal in every process."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
