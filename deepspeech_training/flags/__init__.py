"""The command line: the table of flags, its parser, its help, and the way from flags to `Config`.

The table is data; help, documentation, parsing and `Config` are all made from it.
"""
