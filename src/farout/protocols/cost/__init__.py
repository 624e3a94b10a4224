"""`cost`: seconds that every detector takes per 10,000 images."""
