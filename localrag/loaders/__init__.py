"""Files to documents: find them, parse each in a confined process, and list every other file with the reason."""
