"""Question tables: read from what people have, and the row of a question found in them."""
