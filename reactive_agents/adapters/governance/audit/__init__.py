"""The audit log: a chain of hashes in a SQLite file."""
