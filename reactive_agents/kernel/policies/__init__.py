"""Policies: pure functions from a state to a verdict, evaluated before each step.

Whether a run goes on could be decided by cases in the loop; here each reason is a separate function, so that
it can be read, tested and left out alone, and a custom one has the same rank. The first verdict counts and
names its policy, which is what ``terminated_by`` and the guidance of a turn report. ``decision`` has the
order, and the rules that keep a policy from holding up a run.
"""
