"""Limits and records of a run: guardrails, approval, budgets, verification, audit.

Why they fail closed: a check that cannot be made has not been passed. A budget that cannot be read allows
no spending, an approval that is not given is a denial, and an approved call whose audit entry cannot be
written does not run. Records of what has happened already are different: their failure is reported, and the
result stays.
"""
