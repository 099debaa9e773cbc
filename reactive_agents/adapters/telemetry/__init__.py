"""Telemetry: delivery of events within the process, and the log without secrets.

Why so little: the events of a run are the one record of what happened, and everything that shows or stores
it subscribes to them.
"""
