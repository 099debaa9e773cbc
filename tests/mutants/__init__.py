"""``make mutants``: faults planted one at a time in the code that decides, and the tests that find them."""
