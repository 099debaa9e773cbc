"""Plans made by a model, checked, executed step by step, repaired and judged.

A plan is data: steps with types, arguments and dependencies that a model writes and the code checks before
any of them runs. All changes are pure functions from plan to plan, and completed steps are never touched; the
journal is the one place where the current plan changes, is published and is stored. So a plan survives its
process, and a resumed one repeats no step that may have taken effect.
"""
