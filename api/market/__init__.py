"""`/`: the market page, which reads the public API. `static/` is served as is: no build step."""
