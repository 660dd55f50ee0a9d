"""The graph, brought up to date by difference: what changed is taken out and put in, as rows that wait for publication."""
