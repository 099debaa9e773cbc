"""Implementations of the ports: models, tools, memory, governance, telemetry.

Why they are apart from everything else: whatever touches the world is here, so that everything above is a
function of the answers of the ports. An adapter knows ``core`` and ``ports`` and never another subject;
what several subjects need is a module at this level: SQLite files, background loops, clock, ids and the
redactor that knows the environment. Failures of libraries become values here, and exceptions go no further.
"""
