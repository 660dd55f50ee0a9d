"""What a user sets once: read from the environment and from files, applied as the defaults of options, shown and written."""
