"""A run log in Postgres keeps the contract of the one in a file."""

from tests.adapters.telemetry import test_run_log
from tests.support.postgres import contract_of

FILES_ALONE = {
    "test_secrets_are_not_in_the_file",
    "test_the_file_grows_with_what_is_new",
    "test_a_user_is_forgotten",
    "test_old_runs_are_deleted",
    "test_a_few_runs_are_deleted_at_a_time",
    "test_an_operation_on_a_log_of_many_runs_takes_no_more_than_on_one_of_few",
    "test_runs_of_more_than_the_days_to_keep_are_deleted",
    "test_a_file_that_cannot_be_written_fails_no_run",
    "test_a_killed_run_is_there_up_to_the_kill",
    "test_the_key_of_the_record_encrypts_the_log_wherever_it_is",
    "test_a_log_that_cannot_be_encrypted_says_why",
}
globals().update(contract_of(test_run_log, files_alone=FILES_ALONE))
