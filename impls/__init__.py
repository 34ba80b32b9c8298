"""What is judged: references, wrong implementations, and targets."""
