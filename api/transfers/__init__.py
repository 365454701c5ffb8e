"""`/v1/transfers`: what an owner started, where it is, and how to call it off."""
