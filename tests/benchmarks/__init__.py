"""What the framework itself costs, measured beside a bare loop in the same process."""
