"""Studio: a web page for watching and controlling runs.

The page shows the run log, the record of durable runs and the stores of agents; it stores nothing itself. Its
view of a run is a pure function of the run's logged events (``run_document``), so that the command line, a
comparison and the page always agree. Texts of models and tools are untrusted: they are sent as JSON and
inserted as text nodes, never as markup. The page consists of files of this package, without a build step, and
loads nothing from elsewhere.
"""
