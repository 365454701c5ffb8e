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
});
