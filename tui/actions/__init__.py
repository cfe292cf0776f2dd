"""What the keys do: methods of the app, by what they act on."""
