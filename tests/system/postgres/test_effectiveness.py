"""Memory in Postgres, effectiveness: the contract of a file."""

from tests.adapters.memory import test_effectiveness
from tests.support.postgres import contract_of

globals().update(contract_of(test_effectiveness, files_alone=()))
