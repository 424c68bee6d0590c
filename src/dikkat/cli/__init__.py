"""The command line: thin, and without torch until a command needs it."""
