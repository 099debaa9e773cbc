"""Costs in Postgres keep the contract of those in a file."""

from tests.adapters.governance import test_cost_tracker
from tests.support.postgres import contract_of

FILES_ALONE = {
    "test_an_account_with_one_model_for_each_run_is_carried_over",
    "test_what_is_recorded_is_on_the_disk",
    "test_a_file_that_cannot_be_opened_is_a_failure",
    "test_totals_are_those_of_all_runs_that_are_kept",
    "test_totals_of_many_runs_take_no_more_than_those_of_few",
}
globals().update(contract_of(test_cost_tracker, files_alone=FILES_ALONE))
