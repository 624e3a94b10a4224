"""All measurements, one after the other: `make bench`."""

from benchmarks import (
    attacks,
    corruptions,
    densities,
    engine,
    generators,
    metrics,
    peers,
    rendering,
    report,
    search,
    startup,
    training,
)

if __name__ == "__main__":
    for part in (
        startup,
        metrics,
        rendering,
        training,
        generators,
        densities,
        engine,
        search,
        corruptions,
        attacks,
        peers,
        report,
    ):
        part.main()
