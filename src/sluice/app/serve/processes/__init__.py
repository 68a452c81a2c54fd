"""``sluice serve --processes N``: one API and page in front of N processes, each with a pipeline of its own."""
