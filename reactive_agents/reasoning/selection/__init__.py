"""Selection of a strategy by rules, by a model, and by earlier outcomes."""
