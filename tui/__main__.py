"""`cgtop` and `python -m cgtop.tui`: the command line, and a ctrl+c while Python still imports it is no traceback."""

from signal import SIGINT


def main() -> None:
    """Run the command line. Raises `SystemExit` with its exit code."""
    try:
        from .cli import main as run
    except KeyboardInterrupt:
        raise SystemExit(128 + SIGINT) from None
    run()


if __name__ == "__main__":
    main()
