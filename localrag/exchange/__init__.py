"""Import and export of indexes in other programs' formats, and packs that carry an index to another machine."""
