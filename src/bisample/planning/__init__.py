"""Before asking: which mechanism, how many questions each, and what margin to expect."""
