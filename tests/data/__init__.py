"""The guide's speed demonstration, where the guide has it."""
