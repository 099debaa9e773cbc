"""Guardrails made of checks: rules without network access, and a model as a judge."""
