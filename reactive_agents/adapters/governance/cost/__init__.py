"""The services that keep the account of money, and choose what is worth it."""
