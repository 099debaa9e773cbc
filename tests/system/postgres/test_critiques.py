"""Memory in Postgres, critiques: the contract of a file."""

from tests.adapters.memory import test_critiques
from tests.support.postgres import contract_of

globals().update(contract_of(test_critiques, files_alone=()))
