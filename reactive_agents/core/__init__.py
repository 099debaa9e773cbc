"""The vocabulary of the package: frozen values, errors, events and their codec."""

VERSION = "0.1.0"
"""Of the package; ``pyproject.toml`` has the same."""
