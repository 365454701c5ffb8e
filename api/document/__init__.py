"""`/openapi.json`, `/asyncapi.json`, and the page that shows the first: `/docs`."""
