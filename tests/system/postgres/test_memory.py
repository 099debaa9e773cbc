"""A memory in Postgres keeps the contract of the one in a file."""

from tests.adapters.memory import test_service
from tests.support.postgres import contract_of

FILES_ALONE = {
    "test_a_file_is_rewritten_for_whom_it_forgets_and_not_for_what_is_old",
    "test_what_is_forgotten_is_not_left_in_the_file",
    "test_every_method_fails_with_a_value_when_the_file_cannot_be_used",
    "test_notes_stay_when_a_flush_fails",
    "test_what_fades_is_not_recalled_and_then_deleted",
}
globals().update(contract_of(test_service, files_alone=FILES_ALONE))
