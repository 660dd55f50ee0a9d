"""Communities brought up to date row by row: what a change reaches moves."""
