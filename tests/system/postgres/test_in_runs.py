"""Memory in Postgres, in_runs: the contract of a file."""

from tests.adapters.memory import test_in_runs
from tests.support.postgres import contract_of

globals().update(contract_of(test_in_runs, files_alone=()))
