"""Work on documents: reviews, contradictions, timelines, complete lists and comparisons, as tables whose cells quote the documents."""
