"""The interfaces, one file each: what a client sends, and the shape of what it is answered."""
