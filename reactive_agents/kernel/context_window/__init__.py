"""How a transcript fits the window of its model: sizes, compaction, previews of results, and recall."""
