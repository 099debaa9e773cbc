"""Processes that share a Postgres database: one chain, one budget, one order of runs."""

from property_tests import test_shared_budget
from tests.support.postgres import contract_of
from tests.system import test_audit_processes, test_session_processes

test_processes_make_one_chain = test_audit_processes.test_processes_make_one_chain
test_processes_never_spend_more_than_there_is = (
    test_shared_budget.test_processes_never_spend_more_than_there_is
)
FILES_ALONE = {"test_what_was_reported_before_a_kill_is_there_once_and_in_order"}  # reads the file
globals().update(contract_of(test_session_processes, files_alone=FILES_ALONE))
