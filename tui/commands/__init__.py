"""The commands of `cgtop`, one module each; `..cli` gives them their names and options."""
