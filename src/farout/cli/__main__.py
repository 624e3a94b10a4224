"""`python -m farout.cli` is `farout`."""

from farout.cli import main

if __name__ == "__main__":
    main()
