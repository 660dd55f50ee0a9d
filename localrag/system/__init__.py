"""What the operating system gives: limits of containers, files of the user, cores and memory."""
