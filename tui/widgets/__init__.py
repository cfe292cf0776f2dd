"""Widgets: each draws one part of a RunState."""
