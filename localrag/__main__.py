"""`python -m localrag`."""

from localrag.cli import main

main()
