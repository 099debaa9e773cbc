"""Guardrails made of checks: rules that need no network, and a model as a judge where rules do not reach."""
