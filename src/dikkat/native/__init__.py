"""What this processor can do, probed without changing anything."""
