"""Guardrails made of checks: rules without network access, and a model as a judge.

Why rules first: they cost microseconds, run on every tool result, and say where in a text they found
something. They do not understand a text; a judge does, and costs a call. Neither is a boundary: what a
finding prevents is decided by approval, the workspace and the addresses of tools.
"""
