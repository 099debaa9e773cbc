"""Limits and records of a run: guardrails, approval, budgets, verification, audit.

These services fail closed: a check that cannot be made is not passed. A budget that cannot be read allows no
spending, an approval that is not given is a denial, and an approved call whose audit entry cannot be written
does not run. A failure to record what has already happened is only reported; the result stays.
"""
