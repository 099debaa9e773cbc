"""The records and the queue of personas in Postgres keep the contract of those in a file."""

from tests.adapters.memory import test_personas
from tests.cli import test_persona_work
from tests.support.postgres import contract_of

FILES_ALONE = {
    "test_a_file_from_before_personas_is_brought_forward",
    "test_a_file_that_cannot_be_written_is_a_failure",
}
globals().update(contract_of(test_personas, files_alone=FILES_ALONE))

test_a_dead_letter_is_listed_and_sent_after_a_retry = (
    test_persona_work.test_a_dead_letter_is_listed_and_sent_after_a_retry
)
test_a_plan_is_cancelled_while_it_is_executed_and_tried_again = (
    test_persona_work.test_a_plan_is_cancelled_while_it_is_executed_and_tried_again
)
