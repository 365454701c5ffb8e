"""`/`: the market as a person sees it. Files of one page, which reads the public API by itself.

`static/` is served as it is: no build step, no other host.
"""
