"""All measurements, one after the other: `make bench`."""

from benchmarks import (
    attacks,
    corruptions,
    densities,
    engine,
    generators,
    metrics,
    overhead,
    peers,
    plan,
    rendering,
    report,
    scaling,
    search,
    startup,
    throughput,
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
        throughput,
        overhead,
        search,
        corruptions,
        attacks,
        plan,
        scaling,
        peers,
        report,
    ):
        part.main()
