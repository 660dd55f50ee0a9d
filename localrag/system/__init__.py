"""The operating system: files of the user, processes, cores and memory, limits of containers."""
