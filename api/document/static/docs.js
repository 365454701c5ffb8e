"use strict";

SwaggerUIBundle({
  url: "openapi.json",
  domNode: document.getElementById("docs"),
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  // What was typed as a token is not kept.
  persistAuthorization: false,
  // Neither a validator nor a remote configuration: nothing leaves this host.
  validatorUrl: null,
  queryConfigEnabled: false,
  // What Swagger UI leaves out for screen readers: the name of its list of servers, regions around
  // its operations, and headings that follow on each other.
  onComplete: () => {
    document.getElementById("servers")?.setAttribute("aria-label", "Server");
    for (const [part, name] of [
      [".information-container", "About the API"],
      [".scheme-container", "Server and token"],
    ]) {
      const region = document.querySelector(part);
      region?.setAttribute("role", "region");
      region?.setAttribute("aria-label", name);
    }
    for (const heading of document.querySelectorAll("h3.opblock-tag, .models > h4"))
      heading.setAttribute("aria-level", "2");
  },
});
