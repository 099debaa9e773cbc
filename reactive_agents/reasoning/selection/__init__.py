"""Which strategy suits a task: rules, a model's choice, and what came of earlier runs."""
