"""What a question's own words say: its language, whether it is about everything, what in it points to the conversation."""
