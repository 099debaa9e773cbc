"""Memory in Postgres, plans: the contract of a file."""

from tests.adapters.memory import test_plans
from tests.support.postgres import contract_of

globals().update(contract_of(test_plans, files_alone=()))
