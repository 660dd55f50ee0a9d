"""One module a file format; each turns a file into its content."""
