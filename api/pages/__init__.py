"""Pages for people, which read the public API. `static/` is served as is: no build step."""
