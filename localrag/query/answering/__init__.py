"""From what was found to an answer whose citations are verified."""
