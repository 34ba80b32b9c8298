"""Wrong implementations, which measure the suite. The table of them all imports torch."""
