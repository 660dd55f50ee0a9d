"""The stages of indexing: plain functions that take and return records; `pipeline` runs them in order."""
