"""The stages of indexing: functions that take and return records. `pipeline` runs them in order."""
