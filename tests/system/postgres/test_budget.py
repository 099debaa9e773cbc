"""A budget in Postgres keeps the contract of the one in a file."""

from tests.adapters.governance import test_budget
from tests.support.postgres import contract_of

FILES_ALONE = {
    "test_a_file_that_somebody_keeps_locked_is_a_failure",
    "test_a_file_that_is_no_database_is_a_failure",
    "test_it_works_again_when_the_file_does",
    "test_rows_that_no_budget_asks_for_any_more_are_deleted",
    "test_a_deleted_file_is_no_fresh_budget",
    "test_old_rows_are_searched_for_once_a_day_not_by_each_agent",
}
globals().update(contract_of(test_budget, files_alone=FILES_ALONE))
