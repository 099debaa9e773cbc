"""Working memory: the few notes of a run under way, as a frozen value."""

from __future__ import annotations

from attrs import evolve, frozen

from reactive_agents.adapters.memory.search import fingerprint
from reactive_agents.core.memory import MemoryCandidate

MOST_NOTES = 32


@frozen
class WorkingMemory:
    """At most ``capacity`` notes (1 or more), oldest first."""

    notes: tuple[MemoryCandidate, ...] = ()
    capacity: int = MOST_NOTES

    def noting(self, note: MemoryCandidate) -> WorkingMemory:
        """With one more note, in place of the same one; the least important, oldest first, makes room."""
        mark = fingerprint(note.content)
        notes = [known for known in self.notes if fingerprint(known.content) != mark]
        notes.append(note)
        if len(notes) > self.capacity:
            notes.remove(min(notes, key=lambda each: each.importance))
        return evolve(self, notes=tuple(notes))
