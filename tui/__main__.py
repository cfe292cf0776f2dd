"""`cgtop` and `python -m cgtop.tui`: the command line, and a ctrl+c while it is still being made is no traceback."""

from signal import SIGINT


def main() -> None:
    """Run the command line. Raises `SystemExit` with its exit code."""
    try:
        from .cli import main as run

        run()
    except KeyboardInterrupt:
        raise SystemExit(128 + SIGINT) from None


if __name__ == "__main__":
    main()
