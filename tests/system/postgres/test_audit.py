"""An audit log in Postgres keeps the contract of the one in a file."""

from tests.adapters.governance import test_audit
from tests.support.postgres import contract_of

FILES_ALONE = {
    "test_ordinary_statements_change_nothing",
    "test_a_start_that_need_not_outlive_a_loss_of_power_waits_for_no_disk",
    "test_secrets_do_not_reach_the_log",
    "test_the_first_entry_that_was_tampered_with_is_named",
    "test_entries_that_change_places_are_found",
    "test_a_stored_head_reveals_a_recomputed_chain",
    "test_nothing_is_added_to_a_log_whose_end_was_cut",
    "test_a_log_that_was_deleted_replaced_or_cut_is_noticed",
    "test_a_head_that_cannot_be_kept_or_read_is_a_failure",
    "test_signatures_are_not_taken_off",
    "test_a_signature_shows_a_tail_that_was_cut_with_the_head",
    "test_a_file_that_does_not_serve_is_a_failure",
    "test_a_locked_file_is_a_failure_in_the_end",
    "test_a_disk_without_room_is_a_failure",
    "test_a_log_that_is_not_there_is_a_failure",
    "test_what_took_the_place_of_a_log_is_no_log",
    "test_tampering_with_a_pruned_log_is_found",
    "test_a_log_that_was_cut_at_its_beginning_is_not_taken_for_pruned",
    "test_what_was_tampered_with_is_not_pruned",
    "test_a_log_that_was_cut_at_its_beginning_is_not_pruned",
    "test_a_slower_writer_that_kept_an_older_head_hinders_nobody",
    "test_an_operation_on_a_log_of_many_entries_takes_no_more_than_on_one_of_few",
}
globals().update(contract_of(test_audit, files_alone=FILES_ALONE))
