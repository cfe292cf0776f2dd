"""What a person sees of cgtop in a terminal."""
