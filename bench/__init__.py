"""How good the suite is, in figures: its speed, its false alarms, the errors that it sees."""
