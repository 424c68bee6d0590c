"""The interfaces, one file each: the requests of a kind of client, and the shape of their answers."""
