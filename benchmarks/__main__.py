"""All measurements, one after the other: `make bench`."""

from benchmarks import attacks, corruptions, engine, metrics, peers, rendering, search, startup

if __name__ == "__main__":
    for part in (startup, metrics, rendering, engine, search, corruptions, attacks, peers):
        part.main()
