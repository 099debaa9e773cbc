"""The cost of the framework, measured beside a bare loop in the same process."""
