"""Work on documents: reviews, timelines, lists and comparisons, as tables whose cells quote the documents."""
