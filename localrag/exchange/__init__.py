"""Indexes in other programs' formats: written, read, carried to other machines."""
