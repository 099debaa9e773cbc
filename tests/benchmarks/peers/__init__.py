"""The same work by this framework and by a peer."""
