"""Files → documents → chunks: reading, updating, erasing."""
