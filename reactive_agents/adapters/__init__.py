"""Implementations of the ports: models, tools, memory, governance, telemetry.

All I/O is in this package, so that everything above is a function of the ports' answers. An adapter imports
``core`` and ``ports``, never an adapter of another subject. Modules that several subjects need are at this
level: SQLite files, background loops, clock, ids and the redactor that knows the environment. Exceptions of
libraries become error values here.
"""
