"""Those who do the jobs of indexing: this process, processes beside it, or other machines."""
