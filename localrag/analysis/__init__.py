"""Work on documents: reviews, timelines, complete lists and comparisons, as tables whose cells quote the documents."""
