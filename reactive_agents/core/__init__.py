"""The vocabulary of the package: frozen values, errors, events and their codec.

Each layer above speaks in these values, and this package knows none of the layers. The values are compared,
stored, and sent between processes, so they are frozen, and one codec reads and writes them all.
"""

VERSION = "0.1.0"
"""Of the package; ``pyproject.toml`` has the same."""
