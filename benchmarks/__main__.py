"""All measurements, one after the other: `make bench`."""

from benchmarks import attacks, corruptions, engine, generators, metrics, peers, rendering, search, startup, training

if __name__ == "__main__":
    for part in (startup, metrics, rendering, training, generators, engine, search, corruptions, attacks, peers):
        part.main()
