"""The studio shows what is in Postgres, and acts on it, as with files."""

from tests.studio import test_app

pytestmark = test_app.pytestmark

test_records = test_app.test_conversations_memory_budgets_and_the_audit_log_are_shown
test_a_persona = test_app.test_plans_and_learnings_of_a_persona_are_shown_and_deleted
test_an_interrupted_run = test_app.test_an_interrupted_run_is_continued
