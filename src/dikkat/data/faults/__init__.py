"""What is wrong with parallel text: each fault found, counted, shown and left out. Knows numpy, not torch."""
