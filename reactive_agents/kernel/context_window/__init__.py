"""The context window: sizes, compaction, previews of results, and recall."""
