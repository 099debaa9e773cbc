"""Telemetry: delivery of events within the process, and the log without secrets.

The events of a run are the only record of what happened; everything that shows or stores a run subscribes to
them.
"""
