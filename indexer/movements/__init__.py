"""Projection: bridge crossings, from burn or send to mint or receive."""
