"""`python -m attnspec` is the command `attnspec`."""

from __future__ import annotations

from attnspec.cli import main

if __name__ == "__main__":
    main(prog_name="attnspec")
