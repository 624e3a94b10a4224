"""All measurements, one after the other: `make bench`."""

from benchmarks import engine, metrics, panel, rendering, startup

if __name__ == "__main__":
    for part in (startup, metrics, panel, rendering, engine):
        part.main()
