"""`python -m farout` is `farout`."""

from farout.cli import main

if __name__ == "__main__":
    main()
