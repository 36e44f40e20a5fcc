"""What is kept between two calls: a key-value storage, names that can be listed, a lock; for whatever is kept."""
