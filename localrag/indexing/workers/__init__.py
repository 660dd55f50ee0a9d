"""Workers: run the tasks of indexing in this process, in processes beside it, or on the machines of a Ray cluster."""
