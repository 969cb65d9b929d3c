"""The command line: a thin adapter, about 15 lines a command. What is heavy is loaded when a command runs."""
