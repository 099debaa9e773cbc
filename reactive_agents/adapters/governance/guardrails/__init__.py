"""Guardrails made of checks: rules without network access, and a model as a judge.

Rules come first: they cost microseconds, run on every tool result, and locate their findings. They do not
understand a text; a judge does, for the price of a call. Neither is a security boundary: those are approval,
the workspace and the address checks of tools.
"""
