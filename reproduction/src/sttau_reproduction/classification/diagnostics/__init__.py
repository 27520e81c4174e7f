"""A second look at trained networks: how finite they are, length-matched detection, corrupted input, samples."""
