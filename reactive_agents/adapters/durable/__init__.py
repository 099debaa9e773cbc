"""Records of runs, by which they outlive their process."""
