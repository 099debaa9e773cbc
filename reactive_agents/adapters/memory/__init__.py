"""Memory of an agent in one SQLite file: entries, sessions, plans and records.

Memory uses plain SQL, since recall must work without a model, a service or an SQLite extension, and take
milliseconds with ten thousand entries. Keyword search uses the full-text index; semantic search, with an
embedder, uses vectors in the same file; hybrid search fuses both rankings. ``service`` implements the port,
``store`` and ``vectors`` run statements in the caller's transaction, ``recall`` selects the memories for a
prompt.
"""
