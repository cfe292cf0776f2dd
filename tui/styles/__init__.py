"""Textual stylesheets."""
