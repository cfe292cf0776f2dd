"""How much cgtop costs what it measures: run by `make bench` on a machine with a GPU, never by the test suite."""
