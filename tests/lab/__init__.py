"""A laboratory of simulated models that slip, and of tasks whose answers can be checked."""
