"""What cgtop knows without a screen: events, state, recordings and the engine that measures."""
