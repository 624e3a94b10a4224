"""Sources of images and networks: small descriptions that travel to worker processes and open there."""
