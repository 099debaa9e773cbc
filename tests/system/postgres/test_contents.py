"""Content in Postgres keeps the contract of that in a file."""

from tests.adapters.memory import test_contents
from tests.support.postgres import contract_of

FILES_ALONE = {
    "test_two_stores_share_a_file",
    "test_a_file_that_cannot_be_written_is_a_typed_error",
    "test_the_end_of_a_run_does_not_read_what_sessions_hold",
}
globals().update(contract_of(test_contents, files_alone=FILES_ALONE))
