"""What fog and frost lay over images."""
