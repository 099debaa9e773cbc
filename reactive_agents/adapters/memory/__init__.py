"""Memory of an agent in one SQLite file: entries, sessions, plans and records.

Why it is built on plain SQL: recalling must work without a model, a service or an extension of SQLite, and
cost milliseconds at ten thousand entries. Words are found by the full-text index; meaning, where there is
an embedder, by vectors in the same file; both orders are fused. ``service`` is the port, ``store`` and
``vectors`` are statements within a transaction of the caller, ``recall`` decides what a run is shown.
"""
