"""Does a strategy earn its cost? Games of 24, played by a simulated model through the real strategies."""
