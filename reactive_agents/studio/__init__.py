"""Studio: one page on which a person sees what runs do, and acts.

The page shows what the run log, the record of durable runs and the stores of agents hold; it stores nothing
itself. All that it says of a run is a pure function of the run's logged events (``run_document``), so that
the command line, a comparison and the page never disagree. Whatever models and tools have written is data: it
goes to the page as JSON, and there into text nodes, never into markup. The page is files of this package,
without a build step, and loads nothing from elsewhere.
"""
